"""Pictures sorted by class: random resized crops and flips in training, else one centre crop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Shaped, UInt8
from PIL import Image

from ars.data.benchmark import Part
from ars.data.crops import DRAWS, as_bytes, centre_box, cut, random_resized_box
from ars.data.draws import uniforms
from ars.data.files import Files
from ars.data.images import open_upright

Labels = Int64[np.ndarray, " n"]
Names = Shaped[np.ndarray, " n"]
Listing = tuple[list[str], list[int]]
"""The names of the files of a part, and their labels."""


@dataclass(frozen=True)
class ClassPictures:
    """Files with labels.

    Training shows a random box of at least the smallest share of the area, flipped half of the time; the other parts
    show the centre after the short side is brought to short.
    """

    files: Files
    names: Mapping[Part, Names]
    of_class: Mapping[Part, Labels]
    side: int
    short: int
    smallest: float

    def labels(self, part: Part) -> Labels:
        """The label of each picture of the part."""
        return self.of_class[part]

    def view(self, part: Part, index: int, key: Sequence[int]) -> UInt8[np.ndarray, "3 s s"]:
        """What the model sees of a picture."""
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
    """Names as bytes: a million Python strings would be copied into every worker, reference count by count."""
    return np.array([name.encode(errors="surrogateescape") for name in names], dtype=np.bytes_)


def class_of(name: str, under: str = "") -> str:
    """The class folder that a file lies in.

    >>> class_of("train/n01440764/n01440764_18.JPEG", "train")
    'n01440764'
    """
    return name.removeprefix(f"{under}/" if under else "").split("/")[0]
