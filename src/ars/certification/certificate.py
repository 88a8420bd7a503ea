"""The result of a certification: a label with its radius, or an abstention."""

import math
from dataclasses import dataclass
from typing import Literal

from ars.certification.bounds import Bound
from ars.certification.settings import Mode, Schedule
from ars.theory import Norm

Ending = Literal["planned", "certified", "given up"]
"""planned: all planned draws were made; certified: every radius was certified earlier; given up: it was hopeless."""


def stopped_by_data(mode: Mode, ended: Ending) -> bool:
    """Whether the votes decided when to stop, so that they must never be bounded again.

    In curve mode this is always so, even at the last look: the votes decided that the image got that far.
    """
    return mode == "curve" or ended != "planned"


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - alpha over the draws, no e with ||e||_norm <= radius changes the label.

    label is None if the smoothed classifier abstained; the radius is then 0. The certificate holds all votes. radii has
    the radius under each bound that may be applied to the votes: if the votes decided when to stop (stopped_by_data),
    that is only the rule's own bound. In curve mode the radius is the largest certified one of schedule.radii.
    """

    label: int | None
    radius: float
    norm: Norm
    dim: int
    candidate: int
    p_lower: float
    p_upper: float
    bound: Bound
    radii: dict[Bound, float]
    counts: tuple[int, ...]
    select_counts: tuple[int, ...]
    alpha: float
    sigmas: tuple[float, ...]
    seed: int
    index: int
    precision: str
    schedule: Schedule
    planned: int
    ended: Ending

    def __post_init__(self) -> None:
        # in a grid, 0 is a radius like any other
        positive = 0 < self.radius < math.inf or self.radius in self.schedule.radii
        if not (self.radius == 0 if self.label is None else positive):
            raise ValueError(f"an abstention has radius 0 and a label a positive one, got {self.label}, {self.radius}")
        votes = self.select_counts
        if self.label not in (None, self.candidate) or self.candidate != votes.index(max(votes)):
            raise ValueError(f"selection gave {votes}, which is not candidate {self.candidate} and label {self.label}")
        draws, most = self.n_estimate, self.schedule.n_max
        if not draws <= self.planned <= most or (self.ended == "planned" and draws != self.planned):
            raise ValueError(f"{draws} draws cannot have ended as {self.ended!r}: planned {self.planned} of {most}")
        rebounded = set(self.radii) != {self.bound} if self.schedule.mode == "curve" else any(self.radii.values())
        if self.stopped_by_data and rebounded:
            raise ValueError(f"votes that decided when to stop are never bounded again, got radii {self.radii}")

    @property
    def n_estimate(self) -> int:
        """N, the number of draws that the radius is computed from."""
        return sum(self.counts)

    @property
    def stopped_by_data(self) -> bool:
        """Whether the votes decided when to stop, so that no bound for a fixed number of draws applies to them."""
        return stopped_by_data(self.schedule.mode, self.ended)


@dataclass(frozen=True)
class Prediction:
    """A label that is the most probable class with probability at least 1 - alpha over the draws, or None."""

    label: int | None
    p_value: float
    counts: tuple[int, ...]
    alpha: float
    seed: int
    index: int
