"""Pictures in class folders: random resized crops and flips in training, one centre crop otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped, UInt8
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from ars.data.benchmark import Part, uniforms
from ars.data.crops import DRAWS, as_bytes, centre_box, cut, random_resized_box
from ars.data.files import Files
from ars.data.image_files import decode, open_upright
from ars.data.settings import DataError

Labels = Int64[np.ndarray, " n"]
Names = Shaped[np.ndarray, " n"]
Listing = tuple[list[str], list[int]]
"""The file names of a part, and their labels."""


@dataclass(frozen=True)
class ClassPictures:
    """Files with labels.

    Training shows a random box of at least the share smallest of the area, flipped half of the time. The other parts
    show the centre after resizing the short side to short.
    """

    files: Files
    names: Mapping[Part, Names]
    labels: Mapping[Part, Labels]
    side: int
    short: int
    smallest: float

    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "3 s s"]:
        """The model's view of a picture."""
        name = self.names[part][index].decode(errors="surrogateescape")
        shown = f"{self.files.path}/{name}"
        picture = open_upright(self.files.read(name), shown)
        if part != "train":
            box = centre_box(*picture.size, short=self.short, side=self.side)
            return as_bytes(cut(picture, box, self.side, shown))
        u = uniforms(key, DRAWS + 1)
        box = random_resized_box(*picture.size, u[:DRAWS], smallest=self.smallest)
        square = cut(picture, box, self.side, shown, fast=True)
        return as_bytes(square.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if u[DRAWS] < 0.5 else square)


def class_pictures(
    files: Files, listings: Mapping[Part, Listing], *, side: int, short: int, smallest: float
) -> ClassPictures:
    """The pictures of listings."""
    names = {part: as_array(listing[0]) for part, listing in listings.items()}
    labels = {part: np.array(listing[1], dtype=np.int64) for part, listing in listings.items()}
    return ClassPictures(files, names, labels, side, short, smallest)


def as_array(names: Sequence[str]) -> Names:
    """Names as bytes: reference counts would cause a million Python strings to be copied into every worker."""
    return np.array([name.encode(errors="surrogateescape") for name in names], dtype=np.bytes_)


def class_of(name: str, under: str = "") -> str:
    """The class folder of a file.

    >>> class_of("train/n01440764/n01440764_18.JPEG", "train")
    'n01440764'
    """
    return name.removeprefix(f"{under}/" if under else "").split("/")[0]


@dataclass(frozen=True)
class _Reader(Dataset[Any]):
    files: Files
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> str:
        try:
            decode(self.files.read(self.names[index]), f"{self.files.path}/{self.names[index]}")
        except DataError as error:
            return str(error)
        return ""


def find_unreadable(files: Files, names: Sequence[str], *, workers: int = 0) -> dict[str, str]:
    """The files that cannot be read, and why."""
    loader: DataLoader[Any] = DataLoader(_Reader(files, names), batch_size=64, num_workers=workers, collate_fn=list)
    reasons = [reason for batch in loader for reason in batch]
    return {name: reason for name, reason in zip(names, reasons, strict=True) if reason}
