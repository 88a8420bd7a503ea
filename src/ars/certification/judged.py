"""How much of a test set was judged: how many of its images, of how many of its classes; loads no torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Judged:
    """Images and classes that were judged, and how many there are; of_images is None where nobody knows.

    >>> print(Judged.of([0, 1, 1], of_images=300, of_classes=8))
    3 of 300 test images, 2 of 8 classes
    """

    images: int
    of_images: int | None
    classes: int
    of_classes: int

    @classmethod
    def of(cls, truths: Iterable[int], *, of_images: int | None, of_classes: int) -> Self:
        """Of the true classes of the images that were judged."""
        truths = list(truths)
        return cls(len(truths), of_images, len(set(truths)), of_classes)

    def __str__(self) -> str:
        images = f"{self.images}" if self.of_images is None else f"{self.images} of {self.of_images}"
        return f"{images} test images, {self.classes} of {self.of_classes} classes"
