"""Small images on larger backgrounds: the distractor benchmark, composed on the device from bytes stored there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Shaped, UInt8
from torch import Tensor
from torch.nn.functional import pad

from ars.data.benchmark import (
    ALL_ROWS,
    PARTS,
    ByteImages,
    Chosen,
    Labelled,
    LabelledBytes,
    Part,
    Split,
    generator,
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


class PastedImages(ByteImages):
    """Each image at a random slot along the border of a background; flips come before pasting.

    Training draws background, slot and flip at random. For a validation or test image, background and slot are hashed
    from (seed, split, index), and there is no flip. Parts share neither images nor backgrounds. Without backgrounds,
    training may show random crops of the images, padded with black pixels.
    """

    moments_batch = 500

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
        """padding is that of the random crops in training."""
        self.title, self.class_names, self.seed, self.digest = title, class_names, seed, digest
        self.padding, self.chosen = padding, chosen
        self._material = material
        self._put(device or torch.device("cpu"))

    def _put(self, device: torch.device) -> None:
        self.device = device
        self._material = {part: self._material[part].to(device) for part in PARTS}
        self._labels = {part: self._material[part].labels for part in PARTS}
        first = self._material["train"]
        side = first.images.shape[-1]
        canvas = side if first.backgrounds is None else first.backgrounds.shape[-1]
        self.shape = (3, canvas, canvas)
        self._slots = border_slots(canvas - side).to(device)

    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """Every training image once in random order; a last short batch is dropped."""
        every = self.train_bytes(epoch, seed=seed, batch_size=batch_size, start=start, rows=rows, padding=self.padding)
        return ((to_unit(images), labels) for images, labels in every)

    def train_bytes(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS, padding: int = 0
    ) -> Iterator[LabelledBytes]:
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
        size = min(self.moments_batch, self.train_size())
        return torch.cat([images for images, _ in self.train_bytes(0, seed=0, batch_size=size)])

    def _compose(
        self, part: Part, choices: Int[Tensor, "b 4"], *, flip: bool = False, padding: int = 0
    ) -> LabelledBytes:
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
