"""The threat model: a ball of perturbations around an image."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ars.theory.rounding import as_number, as_whole

Norm = Literal["l2", "linf"]
NORMS: tuple[Norm, ...] = get_args(Norm)


class UnsupportedThreat(ValueError):
    """A guarantee was asked for a ball that the mechanism's proof does not cover."""


def check_norm(norm: Norm) -> None:
    """Refuse a norm for which there is no guarantee."""
    if norm not in NORMS:
        raise UnsupportedThreat(f"norm must be one of {', '.join(NORMS)}, got {norm!r}")


def check_dim(dim: int) -> int:
    """Refuse an invalid number of coordinates."""
    return as_whole("dim", dim, least=1)


@dataclass(frozen=True)
class Ball:
    """B_p(r): every perturbation e in R^dim with ||e||_p <= radius."""

    norm: Norm
    dim: int
    radius: float

    def __post_init__(self) -> None:
        check_norm(self.norm)
        check_dim(self.dim)
        object.__setattr__(self, "radius", as_number("radius", self.radius))
        if not 0 <= self.radius < math.inf:
            raise ValueError(f"radius must be finite and at least 0, got {self.radius}")

    @property
    def l2_radius(self) -> float:
        """Radius of the smallest L2 ball around this one: ||e||_2 <= sqrt(dim) ||e||_inf, Eq. (4)."""
        return self.radius * math.sqrt(self.dim) if self.norm == "linf" else self.radius
