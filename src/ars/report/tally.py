"""The accuracy of the plain vote on a test set, as vote.json states it; loads no torch."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ars.certification.run_folder import BEGUN_VOTE, VOTE
from ars.certification.seen_images import Look
from ars.report.measures import standard_error


@dataclass(frozen=True)
class Tally:
    """How many of the first images the vote of so many draws answers correctly; nothing is certified.

    model is the digest of the weights that voted, as records have it. looks is how the test images look, as manifests
    have it; an earlier version did not write it. order names the order that they are in, as there.
    """

    images: int
    draws: int
    correct: int
    seed: int
    seconds: float
    precision: str
    model: str
    looks: Look = ()
    order: str = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """What vote.json holds; accuracy and standard error follow from the counts."""
        return cls(
            images=int(content["images"]),
            draws=int(content["draws"]),
            correct=int(content["correct"]),
            seed=int(content["seed"]),
            seconds=float(content["seconds"]),
            precision=str(content["precision"]),
            model=str(content["model"]),
            looks=tuple(float(number) for number in content.get("looks", ())),
            order=str(content.get("order", "")),
        )

    @property
    def accuracy(self) -> float:
        """The share of images that the vote is right about."""
        return self.correct / self.images if self.images else 0.0

    @property
    def standard_error(self) -> float:
        """What the choice of test images lets the accuracy vary by."""
        return standard_error(self.accuracy, self.images)

    def to_json(self) -> str:
        """The content of vote.json."""
        shown = {"accuracy": self.accuracy, "standard_error": self.standard_error} if self.images else {}
        own = {name: value for name, value in asdict(self).items() if value or name not in ("looks", "order")}
        return json.dumps({**own, "seconds": round(self.seconds, 1), **shown}, indent=1) + "\n"

    def same_vote(self, other: "Tally") -> bool:
        """Whether both count the same votes, of however many images; whether these are the same, difference() tells."""
        names = ("draws", "seed", "precision", "model")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def read_tally(folder: Path, *, begun: bool = False) -> Tally | None:
    """The vote of a run, or what was begun of it; None where there is none that can be read."""
    try:
        content: dict[str, Any] = json.loads((folder / (BEGUN_VOTE if begun else VOTE)).read_text(encoding="utf-8"))
        return Tally.of(content)
    except (OSError, ValueError, KeyError, TypeError):
        return None
