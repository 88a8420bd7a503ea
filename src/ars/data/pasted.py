"""Small images on larger backgrounds: the distractor benchmark, composed on the device from bytes stored there."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Int, Shaped, UInt8
from torch import Tensor
from torch.nn.functional import pad

from ars.data.benchmark import (
    ALL_ROWS,
    PARTS,
    Benchmark,
    Chosen,
    Labelled,
    Moments,
    Part,
    Split,
    generator,
    kept_moments,
    words,
)
from ars.data.image_files import to_unit


def border_slots(span: int) -> Int[Tensor, "n 2"]:
    """Every (row, column) from 0 to span at which the pasted image touches the border of the larger one.

    >>> len(border_slots(16))
    64
    """
    rows, columns = torch.meshgrid(torch.arange(span + 1), torch.arange(span + 1), indexing="ij")
    edge = (rows % span == 0) | (columns % span == 0) if span else torch.ones_like(rows, dtype=torch.bool)
    return torch.stack([rows[edge], columns[edge]], dim=1)


def paste(
    images: Shaped[Tensor, "b c s s"], onto: Shaped[Tensor, "b c k k"], slots: Int[Tensor, "b 2"]
) -> Shaped[Tensor, "b c k k"]:
    """Each image pasted with its upper left corner at its slot (row, column) of a copy of its background."""
    batch, channels, side, _ = images.shape
    canvas = onto.shape[-1]
    device = images.device
    top, left = slots.unbind(1)
    within = torch.arange(side, device=device)
    places = (torch.arange(channels, device=device)[:, None, None] * canvas + within[:, None]) * canvas + within
    places = (top * canvas + left)[:, None] + places.flatten()
    return onto.flatten(1).scatter(1, places, images.flatten(1)).view(batch, channels, canvas, canvas)


def crop_padded(
    images: UInt8[Tensor, "b c s s"], padding: int, top: Int[Tensor, " b"], left: Int[Tensor, " b"]
) -> UInt8[Tensor, "b c s s"]:
    """Each image padded with black pixels and cropped to its own size at (top, left) from 0 to 2 padding."""
    batch, channels, side, _ = images.shape
    within = torch.arange(side, device=images.device)
    rows, columns = (top[:, None] + within)[:, None, :, None], (left[:, None] + within)[:, None, None, :]
    of = torch.arange(batch, device=images.device)[:, None, None, None]
    return pad(images, [padding] * 4)[of, torch.arange(channels, device=images.device)[:, None, None], rows, columns]


AT_ONCE, MOMENTS_BATCHES = 500, 20


@dataclass(frozen=True)
class Material:
    """The images and backgrounds of one part; without backgrounds, the inputs are the images."""

    images: UInt8[Tensor, "n 3 s s"]
    labels: Int[Tensor, " n"]
    backgrounds: UInt8[Tensor, "m 3 k k"] | None = None

    def to(self, device: torch.device) -> "Material":
        """A copy on the device."""
        backgrounds = None if self.backgrounds is None else self.backgrounds.to(device)
        return Material(self.images.to(device), self.labels.to(device), backgrounds)


class PastedImages(Benchmark):
    """Each image at a random slot along the border of a background; flips come before pasting.

    Training draws background, slot and flip at random. For a validation or test image, background and slot are hashed
    from (seed, split, index), and there is no flip. Parts share neither images nor backgrounds. Without backgrounds,
    training may show random crops of the images, padded with black pixels.
    """

    def __init__(
        self,
        material: Mapping[Part, Material],
        *,
        title: str,
        class_names: Sequence[str],
        seed: int = 0,
        digest: str = "",
        padding: int = 0,
        chosen: Chosen | None = None,
        device: torch.device | None = None,
    ) -> None:
        """digest identifies the bytes of the material, for the cache of moments."""
        self.title, self.class_names, self.seed, self.digest = title, class_names, seed, digest
        self.padding, self.chosen = padding, chosen
        self.device = device or torch.device("cpu")
        self._material = {part: material[part].to(self.device) for part in PARTS}
        first = self._material["train"]
        side = first.images.shape[-1]
        canvas = side if first.backgrounds is None else first.backgrounds.shape[-1]
        self.shape = (3, canvas, canvas)
        self._slots = border_slots(canvas - side).to(self.device)

    def to(self, device: torch.device) -> "PastedImages":
        """The same benchmark with its tensors on the device."""
        moved = copy(self)
        moved.device, moved._slots = device, self._slots.to(device)
        moved._material = {part: material.to(device) for part, material in self._material.items()}
        return moved

    def train_size(self) -> int:
        """The number of images that are not held out."""
        return len(self._material["train"].images)

    def size(self, split: Split) -> int:
        """One input an image."""
        return len(self._material[split].images)

    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """Every training image once in random order; the last short batch is left out."""
        every = self.train_bytes(epoch, seed=seed, batch_size=batch_size, start=start, padding=self.padding, rows=rows)
        for images, labels in every:
            yield to_unit(images), labels

    def train_bytes(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, padding: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[tuple[UInt8[Tensor, "b 3 k k"], Int[Tensor, " b"]]]:
        """The training batches as bytes; references and moments use whole images, without padding."""
        order = torch.randperm(self.train_size(), generator=generator(seed, epoch))
        for number in range(start, self.train_size() // batch_size):
            chosen = order[number * batch_size : (number + 1) * batch_size]
            draws = torch.randint(2**62, (batch_size, 3), generator=generator(seed, epoch, number))
            choices = torch.cat([chosen[:, None], draws], dim=1)[rows]
            yield self._compose("train", choices, flip=True, padding=padding)

    def examples(self, split: Split, indices: Sequence[int]) -> Labelled:
        """The fixed inputs with these indices."""
        images, labels = self._compose(split, self._choices(split, indices))
        return to_unit(images), labels

    def labels(self, split: Split, indices: Sequence[int]) -> Int[Tensor, " b"]:
        """The classes of these inputs; nothing is composed."""
        self.check_indices(split, indices)
        return self._material[split].labels[list(indices)]

    def boxes(self, split: Split, indices: Sequence[int]) -> Int[Tensor, "b 4"] | None:
        """Where the images are pasted; None without backgrounds."""
        material = self._material[split]
        if material.backgrounds is None:
            return None
        slots = self._slots.cpu()
        corners = slots[self._choices(split, indices)[:, 2] % len(slots)]
        return torch.cat([corners, torch.full_like(corners, material.images.shape[-1])], dim=1)

    def _choices(self, split: Split, indices: Sequence[int]) -> Int[Tensor, "b 4"]:
        """The components of fixed inputs: the image, and three large numbers hashed from (seed, split, index)."""
        self.check_indices(split, indices)
        part = PARTS.index(split)
        draws = np.array([words([self.seed, part, index], 3) >> np.uint64(2) for index in indices]).reshape(-1, 3)
        chosen = torch.tensor(list(indices), dtype=torch.int64)[:, None]
        return torch.cat([chosen, torch.from_numpy(draws.astype(np.int64))], dim=1)

    def references(self) -> UInt8[Tensor, "n 3 k k"]:
        """One epoch of training inputs as bytes, a quarter of the memory of floats."""
        size = min(AT_ONCE, self.train_size())
        return torch.cat([images for images, _ in self.train_bytes(0, seed=0, batch_size=size)])

    def moments(self) -> Moments:
        """Mean and standard deviation of each channel over training inputs; they are cached."""
        size = min(AT_ONCE, self.train_size())

        def batches() -> Iterator[UInt8[Tensor, "b 3 k k"]]:
            every = self.train_bytes(0, seed=self.seed, batch_size=size)
            return (images for images, _ in islice(every, MOMENTS_BATCHES))

        return kept_moments(f"{self.title}, seed {self.seed}, {self.shape}, {self.digest}", batches)

    def _compose(
        self, part: Part, choices: Int[Tensor, "b 4"], *, flip: bool = False, padding: int = 0
    ) -> tuple[UInt8[Tensor, "b 3 k k"], Int[Tensor, " b"]]:
        """The chosen image, with the background, slot and flip selected by three large random numbers.

        Without backgrounds, the first two numbers select the crop of the padded image.
        """
        material = self._material[part]
        chosen, background, slot, coin = choices.to(self.device, non_blocking=True).unbind(1)
        images, labels = material.images[chosen], material.labels[chosen]
        if flip:
            images = torch.where((coin % 2 == 1)[:, None, None, None], images.flip(3), images)
        if material.backgrounds is not None:
            onto = material.backgrounds[background % len(material.backgrounds)]
            images = paste(images, onto, self._slots[slot % len(self._slots)])
        if padding:
            places = 2 * padding + 1
            images = crop_padded(images, padding, background % places, slot % places)
        return images, labels
