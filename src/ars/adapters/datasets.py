"""Datasets of other libraries as test images: of torch, of Hugging Face, or a list of pairs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ars.certification.images import as_batch
from ars.data.benchmark import ALL_ROWS, Benchmark, Labelled, Moments, Split
from ars.data.image_files import as_rgb, to_unit
from ars.data.settings import DataError

IMAGES, LABELS = ("image", "img", "pixel_values"), ("label", "labels", "fine_label", "target")
"""Keys of items that are mappings, as datasets of Hugging Face have them."""


class TestImages(Benchmark):
    """The items of a dataset, in its order, as the test images of a benchmark without training images."""

    __test__ = False  # no test of pytest

    def __init__(self, data: Any, *, title: str, class_names: Sequence[str], device: torch.device) -> None:
        """data has a length and items; a DataLoader stands for its dataset, whatever its sampler."""
        self._items = dataset_of(data)
        self.title, self.class_names, self._device = title, tuple(class_names), device
        self._known: dict[int, int] = {}  # labels of the items that were read
        if not len(self._items):
            raise DataError("the dataset is empty; give one with images")
        self.shape = self._shape(self._read(0)[0])

    def _read(self, index: int) -> tuple[Tensor, int]:
        image, label = read_item(self._items[index], index)
        self._known[index] = label
        return image, label

    def examples(self, split: Split, indices: Sequence[int]) -> Labelled:
        """The items with these indices; all must have the shape of the first."""
        self.check_indices(split, indices)
        images, labels = zip(*(self._read(index) for index in indices), strict=True)
        for index, image in zip(indices, images, strict=True):
            if self._shape(image) != self.shape:
                first, other = ("x".join(map(str, shape)) for shape in (self.shape, self._shape(image)))
                raise DataError(
                    f"the images must have one shape, but item 0 is {first} and item {index} is {other} (channels, "
                    "height, width); bring them to one in the dataset: a transform, or "
                    "[(image.convert('RGB').resize((64, 64)), label) for image, label in dataset]"
                )
        return torch.stack(images).to(self._device), torch.tensor(labels, device=self._device)

    def labels(self, split: Split, indices: Sequence[int]) -> Tensor:
        """The classes of these items."""
        self.check_indices(split, indices)
        found = [self._known[index] if index in self._known else self._read(index)[1] for index in indices]
        classes = len(self.class_names)
        for index, label in zip(indices, found, strict=True):
            if not 0 <= label < classes:
                raise DataError(f"item {index} has label {label}, but the classes are 0 to {classes - 1}")
        return torch.tensor(found, device=self._device)

    def size(self, split: Split) -> int:
        """All items are for testing."""
        return len(self._items) if split == "test" else 0

    def train_size(self) -> int:
        """None."""
        return 0

    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """None."""
        raise DataError(f"{self.title} has only test images")

    def moments(self) -> Moments:
        """Unknown: there are no training images."""
        raise DataError(f"{self.title} has only test images")

    def to(self, device: torch.device) -> "TestImages":
        """The same images on the device."""
        return TestImages(self._items, title=self.title, class_names=self.class_names, device=device)

    @staticmethod
    def _shape(image: Tensor) -> tuple[int, int, int]:
        channels, height, width = image.shape
        return channels, height, width


def dataset_of(data: Any) -> Any:
    """The dataset itself, or that of a DataLoader."""
    found = getattr(data, "dataset", data)
    if not (hasattr(found, "__len__") and hasattr(found, "__getitem__")) or isinstance(found, Mapping | str):
        raise TypeError(
            f"the data must have a length and items (image, label), got {type(found).__name__}; give a dataset, its "
            "DataLoader, one split of a dataset, or list(...) of pairs"
        )
    return found


def class_names_of(data: Any) -> tuple[str, ...]:
    """The names that datasets of torchvision and Hugging Face state; empty if there are none."""
    found = dataset_of(data)
    features = getattr(found, "features", None)
    if isinstance(features, Mapping):
        names = next((getattr(features[key], "names", None) for key in LABELS if key in features), None)
    else:
        names = getattr(found, "classes", None)
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def read_item(item: Any, index: int) -> tuple[Tensor, int]:
    """The image [c, h, w] in [0, 1] and the label of an item."""
    if isinstance(item, Mapping):
        image, label = (next((item[key] for key in keys if key in item), None) for keys in (IMAGES, LABELS))
    elif isinstance(item, tuple | list) and len(item) == 2:
        image, label = item
    else:
        image = label = None
    if image is None or label is None:
        found = f"keys {', '.join(map(str, item))}" if isinstance(item, Mapping) else type(item).__name__
        raise DataError(
            f"item {index} must be a pair (image, label), or have the keys image and label, got {found}; make pairs: "
            "[(item[...], item[...]) for item in dataset]"
        )
    try:
        return read_picture(image), _whole(label)
    except (TypeError, ValueError) as error:
        raise DataError(f"item {index}: {error}") from error


def read_picture(image: Any) -> Tensor:
    """A picture of Pillow, a tensor or an array as a tensor [c, h, w] in [0, 1]; a grey picture has one channel."""
    if isinstance(image, Image.Image):
        image = np.asarray(image if image.mode in ("L", "RGB") else as_rgb(image, "the picture"))
    if isinstance(image, Tensor) and image.dtype == torch.uint8:
        image = to_unit(image)
    return as_batch(image)[0]


def _whole(label: Any) -> int:
    """The label as a whole number; one-hot and soft labels are refused."""
    number = label.item() if isinstance(label, Tensor | np.ndarray | np.generic) and label.ndim == 0 else label
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"the label must be a whole number, the class, got {label!r}")
    return number
