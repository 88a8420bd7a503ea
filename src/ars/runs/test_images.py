"""The test images behind records: how many of how many classes, their statistics, their files; loads no torch."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ars.atomic import write_new
from ars.runs.paths import FILES
from ars.runs.records import RecordError
from ars.theory.rounding import as_number
from ars.untrusted import parse_json, read_text


@dataclass(frozen=True)
class Judged:
    """How many images and classes were certified, out of how many; of_images is None if unknown.

    >>> print(Judged.of([0, 1, 1], of_images=300, of_classes=8))
    3 of 300 test images, 2 of 8 classes
    """

    images: int
    of_images: int | None
    classes: int
    of_classes: int

    @classmethod
    def of(cls, truths: Iterable[int], *, of_images: int | None, of_classes: int) -> Self:
        """From the true classes of the certified images."""
        truths = list(truths)
        return cls(len(truths), of_images, len(set(truths)), of_classes)

    def __str__(self) -> str:
        images = f"{self.images}" if self.of_images is None else f"{self.images} of {self.of_images}"
        return f"{images} test images, {self.classes} of {self.of_classes} classes"


SAME = 1 / 255  # far above the change of an image's mean by another version of a decoder

OTHER_ORDER = "the test images in another order, as an earlier version took the files of a folder by name"

ImageStats = tuple[float, ...]


def read_stats(values: Iterable[Any]) -> ImageStats:
    """Statistics from a file; they must be finite."""
    stats = tuple(as_number("statistics of images", value) for value in values)
    if not all(map(math.isfinite, stats)):
        raise ValueError(f"statistics of images must be finite, got {stats}")
    return stats


def difference(old: ImageStats, new: ImageStats) -> str | None:
    """How the images have changed, in words; None if they have not, or if it is unknown.

    An earlier version stored fewer numbers, so only the numbers that both have are compared.

    >>> difference((3, 0.5, 0.25), (3, 0.5001, 0.75)), difference((3, 0.5), (4, 0.5))
    ('some of the 3 have changed', 'there were 3 test images, now there are 4')
    >>> difference((3, 0.5), (3, 0.5, 0.1)) is difference((), (3, 0.5)) is None
    True
    """
    if not old or not new:
        return None
    were, are = int(old[0]), int(new[0])
    if were != are:
        return f"there were {were} test images, now there are {are}"
    same = all(abs(one - two) <= SAME for one, two in zip(old[1:], new[1:], strict=False))
    return None if same else f"some of the {are} have changed"


def check_files(folder: Path, names: Sequence[str]) -> None:
    """Refuse other file names than those of the begun records; a change of their number shows in the manifest."""
    kept = read_files(folder)
    if len(kept) == len(names) and kept != tuple(names):
        if sorted(kept) == sorted(names):
            raise RecordError(f"{folder} holds records of {OTHER_ORDER}; certify under another --name")
        old, new = next((old, new) for old, new in zip(kept, names, strict=True) if old != new)
        raise RecordError(
            f"{folder} holds records of other images: {old} was where {new} is now; certify under another --name"
        )


def keep_files(folder: Path, names: Sequence[str]) -> None:
    """Write the names unless they are written already."""
    write_new(folder / FILES, json.dumps(list(names), indent=0) + "\n")


def read_files(folder: Path) -> tuple[str, ...]:
    """The names by index; empty if none were written."""
    path = folder / FILES
    try:
        content = parse_json(read_text(path))
        if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
            raise ValueError("expected a list of names")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}); restore a copy of it, or remove it") from error
    return tuple(content)
