"""The answer of a certification: a label with its radius, or an abstention."""

import math
from dataclasses import dataclass

from ars.certification.bounds import Bound
from ars.theory import Norm


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - alpha over the draws, no e with ||e||_norm <= radius changes the label.

    label is None where the smoothed classifier abstained; the radius is then 0. All of the votes are here, so that
    any other bound can be computed from them; radii holds the radius under each bound that the library knows.
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

    def __post_init__(self) -> None:
        if not (self.radius == 0 if self.label is None else 0 < self.radius < math.inf):
            raise ValueError(f"an abstention has radius 0 and a label a positive one, got {self.label}, {self.radius}")

    @property
    def n_estimate(self) -> int:
        """N, the number of draws that the radius rests on."""
        return sum(self.counts)


@dataclass(frozen=True)
class Prediction:
    """A label that is the most probable class with probability at least 1 - alpha over the draws, or None."""

    label: int | None
    p_value: float
    counts: tuple[int, ...]
    alpha: float
    seed: int
    index: int
