"""Trade-off functions: f(a) is the least type II error of any test at level a between X and X + e."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from ars.theory.rounding import ERROR, down


@runtime_checkable
class TradeOff(Protocol):
    """A lower bound f on the type II error at each level; convex, decreasing, f(a) <= 1 - a."""

    def __call__(self, alpha: float, /) -> float:
        """Evaluate f(alpha), rounded down."""


@runtime_checkable
class Profiled(TradeOff, Protocol):
    """A symmetric trade-off function with a privacy profile, which numerical composition needs.

    Equal functions must compare equal and have equal hashes, because repeated parts are composed as powers.
    """

    def delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """delta(eps) for increasing eps >= 0, accurate to 2e-14; it must hold for X against X + e and vice versa."""

    def __hash__(self) -> int:
        """Equal functions have equal hashes."""


def check_level(alpha: float) -> None:
    """Refuse an invalid level of a test."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"the level of a test must lie in [0, 1], got {alpha}")


@dataclass(frozen=True)
class Gaussian:
    """G_mu, the trade-off function between N(0, 1) and N(mu, 1)."""

    mu: float

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise ValueError(f"mu must be at least 0, got {self.mu}")

    def __call__(self, alpha: float, /) -> float:
        """G_mu(a) = Phi(Phi^-1(1 - a) - mu), Eq. (2), rounded down."""
        check_level(alpha)
        z = -float(ndtri(alpha))  # Phi^-1(1 - a) without losing the digits of a small a
        return down(float(ndtr(z - self.mu - ERROR * (abs(z) + self.mu)))) if abs(z) < 40 else float(z > 0)

    def delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Balle and Wang 2018)."""
        if self.mu == 0:
            return np.zeros_like(epsilon)
        scaled = epsilon / self.mu
        exact = ndtr(self.mu / 2 - scaled) - np.exp(epsilon + log_ndtr(-self.mu / 2 - scaled))
        result: NDArray[np.float64] = np.maximum(exact, 0.0)
        return result


@dataclass(frozen=True)
class Laplace:
    """The trade-off function between Laplace noise of scale 1 and the same shifted; shift is |e| over the scale."""

    shift: float

    def __post_init__(self) -> None:
        if not self.shift >= 0:
            raise ValueError(f"shift must be at least 0, got {self.shift}")

    def __call__(self, alpha: float, /) -> float:
        """f(a) = F(F^-1(1 - a) - shift): 1 - e^s a, then e^-s / (4 a), then e^-s (1 - a); rounded down."""
        check_level(alpha)
        loss = math.exp(-self.shift)
        if alpha <= loss / 2:
            return down(1 - alpha / loss * (1 + ERROR)) if alpha < loss / 2 else 0.5 * (1 - ERROR)
        return down(loss / (4 * alpha)) if alpha < 0.5 else down(loss * (1 - alpha))

    def delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 - e^((eps - shift)/2) up to eps = shift, then 0: pure differential privacy."""
        result: NDArray[np.float64] = -np.expm1(np.minimum(epsilon - self.shift, 0.0) / 2)
        return result


@dataclass(frozen=True)
class Approximate:
    """The trade-off function of real releases whose ideal ones have the trade-off function ``ideal``.

    At X and at X + e the real releases are within ``distance`` of the ideal ones in total variation, so a test's two
    errors differ from those on the ideal releases by that much at most: f(a) = ideal(a + distance) - distance.

    >>> Approximate(Gaussian(mu=0.0), 0.25)(0.25) <= 0.25
    True
    """

    ideal: TradeOff
    distance: float

    def __post_init__(self) -> None:
        if not 0 <= self.distance <= 1:
            raise ValueError(f"a distance in total variation must lie in [0, 1], got {self.distance}")

    def __call__(self, alpha: float, /) -> float:
        """ideal(a + distance) - distance, at least 0, rounded down."""
        check_level(alpha)
        if self.distance == 0:
            return self.ideal(alpha)
        level = min(1.0, (alpha + self.distance) * (1 + ERROR))
        return max(0.0, down(down(self.ideal(level)) - self.distance))
