"""Trade-off functions: f(a) is the least type II error of any test at level a that tells X from X + e."""

from dataclasses import dataclass
from typing import Protocol

from scipy.special import ndtr, ndtri

from ars.theory.rounding import ERROR, down


class TradeOff(Protocol):
    """A lower bound f on the type II error at each level; convex, decreasing, f(a) <= 1 - a."""

    def __call__(self, alpha: float, /) -> float:
        """Evaluate f(alpha), rounded down."""


@dataclass(frozen=True)
class Gaussian:
    """G_mu, the trade-off function between N(0, 1) and N(mu, 1).

    >>> round(Gaussian(mu=0.0)(0.25), 12)
    0.75
    """

    mu: float

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise ValueError(f"mu must be at least 0, got {self.mu}")

    def __call__(self, alpha: float, /) -> float:
        """G_mu(a) = Phi(Phi^-1(1 - a) - mu), Eq. (2), rounded down."""
        if not 0 <= alpha <= 1:
            raise ValueError(f"the level of a test must lie in [0, 1], got {alpha}")
        z = -float(ndtri(alpha))  # Phi^-1(1 - a) without losing the digits of a small a
        return down(float(ndtr(z - self.mu - ERROR * (abs(z) + self.mu)))) if abs(z) < 40 else float(z > 0)
