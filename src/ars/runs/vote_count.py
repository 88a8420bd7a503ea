"""The accuracy of the plain vote on a test set, as in vote.json; loads no torch."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ars.runs.paths import BEGUN_VOTE, VOTE
from ars.runs.test_images import ImageStats, read_stats
from ars.theory.rounding import as_number, as_whole
from ars.untrusted import parse_json, read_text


def standard_error(accuracy: float, n: int) -> float:
    """sqrt(p (1 - p) / n), the standard error of an accuracy p due to the choice of n test images.

    >>> standard_error(0.5, 100)
    0.05
    """
    return math.sqrt(accuracy * (1 - accuracy) / n)


@dataclass(frozen=True)
class Tally:
    """How many of the first images the vote classifies correctly; nothing is certified.

    model is the digest of the model, as in records. looks holds the statistics of the test images and order their
    order, as in manifests; an earlier version did not write looks.
    """

    images: int
    draws: int
    correct: int
    seed: int
    seconds: float
    precision: str
    model: str
    looks: ImageStats = ()
    order: str = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """The content of vote.json; accuracy and standard error follow from the counts."""
        images = as_whole("images", content["images"], least=0)
        return cls(
            images=images,
            draws=as_whole("draws", content["draws"], least=1),
            correct=as_whole("correct", content["correct"], least=0, most=images),
            seed=as_whole("seed", content["seed"], least=0),
            seconds=as_number("seconds", content["seconds"]),
            precision=str(content["precision"]),
            model=str(content["model"]),
            looks=read_stats(content.get("looks", ())),
            order=str(content.get("order", "")),
        )

    @property
    def accuracy(self) -> float:
        """The share of images that the vote classifies correctly."""
        return self.correct / self.images if self.images else 0.0

    @property
    def standard_error(self) -> float:
        """The standard error of the accuracy due to the choice of test images."""
        return standard_error(self.accuracy, self.images)

    def to_json(self) -> str:
        """The content of vote.json."""
        shown = {"accuracy": self.accuracy, "standard_error": self.standard_error} if self.images else {}
        fields = {name: value for name, value in asdict(self).items() if value or name not in ("looks", "order")}
        return json.dumps({**fields, "seconds": round(self.seconds, 1), **shown}, indent=1) + "\n"

    def same_vote(self, other: "Tally") -> bool:
        """Whether both count votes with the same draws and model; their images are compared by difference()."""
        names = ("draws", "seed", "precision", "model")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def read_tally(folder: Path, *, begun: bool = False) -> Tally | None:
    """The finished or begun vote of a run; None if there is none that can be read."""
    try:
        content: dict[str, Any] = parse_json(read_text(folder / (BEGUN_VOTE if begun else VOTE)))
        return Tally.of(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
