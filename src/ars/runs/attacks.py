"""What attacks on certified images came to, as in attack/<name>.json of a run; loads no torch.

Each attempt is judged on fresh draws: its p-value is that of the votes if the label's probability at the attacked image
were at least the challenger's. Of the kinds of attack, the strongest at an image is the one with the smallest p-value.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ars.atomic import write_whole
from ars.runs.paths import attack_path
from ars.runs.records import Record, ReportError
from ars.theory.rounding import as_number, as_whole
from ars.untrusted import parse_json, read_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FAMILY_LEVEL = 1e-3
"""Probability of at least one false alarm among all images and multiples below 1, if every certificate is true."""
IMAGE_LEVEL = 1e-3
"""Probability of a false alarm for one image at one multiple."""


@dataclass(frozen=True)
class Target:
    """A certified image: its place in the test set, the certified label, and the radius."""

    index: int
    truth: int
    label: int
    radius: float


@dataclass(frozen=True)
class Attempt:
    """The fresh votes at what one kind of attack found within a multiple of the radius."""

    kind: str
    times: float
    challenger: int
    counts: tuple[int, ...]
    p_value: float


@dataclass(frozen=True)
class Attacked:
    """A target with all attempts on it."""

    target: Target
    attempts: tuple[Attempt, ...]

    def __post_init__(self) -> None:
        if not all(0 <= self.target.label < len(attempt.counts) for attempt in self.attempts):
            raise ValueError(f"image {self.target.index} has label {self.target.label}, which has no counts")

    def strongest(self, times: float) -> tuple[Attempt, float]:
        """The attempt with the smallest p-value at a multiple, and that p-value times the number of attempts."""
        attempts = [attempt for attempt in self.attempts if attempt.times == times]
        first = min(attempts, key=lambda attempt: attempt.p_value)
        return first, min(1.0, len(attempts) * first.p_value)

    def lost(self, times: float, kind: str | None = None) -> bool:
        """Whether another class leads the votes at the strongest attempt, or at the attempt of one kind."""
        attempts = [attempt for attempt in self.attempts if (attempt.times, attempt.kind) == (times, kind)]
        votes = (attempts[0] if kind else self.strongest(times)[0]).counts
        return max(votes) > votes[self.target.label]

    @property
    def lost_at(self) -> float:
        """The smallest attacked radius at which the label lost the vote; infinite if it never did."""
        multiples = {attempt.times for attempt in self.attempts}
        return min((times * self.target.radius for times in multiples if self.lost(times)), default=math.inf)


@dataclass(frozen=True)
class Attacks:
    """The attacks on the first certified images of a certification, in the order of index.

    total is how many images were asked for, and model the digest of the model.
    """

    settings: dict[str, Any]
    model: str
    total: int
    seconds: float
    images: tuple[Attacked, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """The multiples of the radius, increasing."""
        return tuple(self.settings["times"])

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attack."""
        return tuple(self.settings["kinds"])

    @property
    def complete(self) -> bool:
        """Whether every image that was asked for has been attacked."""
        return len(self.images) == self.total

    def fit(self, model: str, targets: Sequence[Target]) -> bool:
        """Whether they are attacks on the first of these targets, of the model with this digest."""
        return self.model == model and [image.target for image in self.images] == list(targets[: len(self.images)])

    def lost(self, times: float, kind: str | None = None) -> int:
        """At how many images another class leads the votes at the strongest attempt, or at that of one kind."""
        return sum(image.lost(times, kind) for image in self.images)

    def significant(self, times: float) -> int:
        """At how many images the label has lost its lead at IMAGE_LEVEL, corrected for the number of kinds."""
        return sum(image.strongest(times)[1] <= IMAGE_LEVEL for image in self.images)

    @property
    def broken(self) -> list[Target]:
        """The targets that lost their lead within the radius, by Holm's procedure at FAMILY_LEVEL."""
        inside = [(image.strongest(times)[1], image.target)
                  for image in self.images for times in self.times if times < 1]  # fmt: skip
        return list(dict.fromkeys(target for _, target in rejected(inside, FAMILY_LEVEL)))

    def to_json(self) -> str:
        """The content of the file; the table is derived from the images, one line each."""
        table = [
            {"times": times, "images": len(self.images), "lost": self.lost(times),
             "significant": self.significant(times), "by_kind": {kind: self.lost(times, kind) for kind in self.kinds}}
            for times in self.times
        ]  # fmt: skip
        head = {
            "settings": self.settings, "model": self.model, "total": self.total, "seconds": round(self.seconds, 1),
            "table": table, "broken": [target.index for target in self.broken],
        }  # fmt: skip
        lines = ",\n".join(json.dumps(asdict(image)) for image in self.images)
        return f'{json.dumps(head, indent=1)[:-2]},\n "images": [\n{lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the file; the table is not read, since it follows from the images."""
        raw = parse_json(text)
        images: tuple[Attacked, ...] = _reader().validate_json(json.dumps(raw["images"]), strict=True)
        times = [as_number("times", value) for value in raw["settings"]["times"]]
        total, seconds = as_whole("total", raw["total"], least=0), as_number("seconds", raw["seconds"])
        made = cls({**raw["settings"], "times": times}, str(raw["model"]), total, seconds, images)
        made.to_json()  # refuses an image without attempts at a multiple
        return made


@cache
def _reader() -> "TypeAdapter[tuple[Attacked, ...]]":
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[Attacked, ...])


def rejected(p_values: Iterable[tuple[float, Target]], level: float) -> list[tuple[float, Target]]:
    """The hypotheses that Holm's procedure rejects: with probability at least 1 - level none of them is true.

    >>> image = Target(0, 1, 1, 0.01)
    >>> [p for p, _ in rejected([(0.02, image), (0.9, image), (0.01, image)], 0.05)]
    [0.01, 0.02]
    """
    ordered = sorted(p_values, key=lambda pair: pair[0])
    count = len(ordered)
    passed = [p * (count - place) <= level for place, (p, _) in enumerate(ordered)]
    return ordered[: passed.index(False)] if False in passed else ordered


def targets_of(records: Sequence[Record]) -> tuple[Target, ...]:
    """The certified images with a radius above 0."""
    found = ((record, record.certificate) for record in records)
    return tuple(
        Target(one.index, record.truth, one.label, one.radius)
        for record, one in found
        if one.label is not None and one.radius > 0
    )


def read_attacks(run: Path, name: str) -> Attacks | None:
    """The attacks on certify/<name> of a run, whole or begun; None if there are none."""
    path = attack_path(run, name)
    try:
        return Attacks.from_json(read_text(path))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ReportError(f"{path} cannot be read ({error}); move it away to attack again") from error


def write_attacks(run: Path, name: str, attacks: Attacks) -> None:
    """Write them as a whole."""
    write_whole(attack_path(run, name), attacks.to_json())
