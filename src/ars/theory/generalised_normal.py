"""Generalised normal noise, density proportional to exp(-|x/a|^beta): its scale and its trade-off function.

The density is log-concave for beta >= 1, so thresholds are the best tests between the noise and the noise shifted by
e, and a larger |e| is easier to detect: the guarantee at |e| = r holds for every |e| <= r.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammainccinv

from ars.theory.rounding import ERROR, as_number, down
from ars.theory.tradeoff import check_level

# exp(-G) is 0 in float64 beyond this, so the tail needs no search further out
FAR = 800.0
# Above this, the tables of theory.unicr take minutes or overflow; radii only shrink from beta = 2 upwards.
MOST_BETA = 5.0


def check_shape(beta: float) -> float:
    """Refuse a shape whose density is not log-concave, so that no guarantee is proved, or too flat to tabulate."""
    beta = as_number("beta", beta)
    if not 1 <= beta <= MOST_BETA:
        raise ValueError(f"beta must be at least 1 (log-concave noise) and at most {MOST_BETA:g}, got {beta}")
    return beta


def noise_scale(sigma: float, beta: float) -> float:
    """a = sigma sqrt(Gamma(1/beta) / Gamma(3/beta)), at which the standard deviation is sigma."""
    if beta == 2:
        return sigma * math.sqrt(2)
    return sigma * math.exp((math.lgamma(1 / beta) - math.lgamma(3 / beta)) / 2)


def large_dim_noise(sigma: float, beta: float) -> float:
    """The Gaussian sigma with the same Linf radius as d -> infinity: 1 over the root of the Fisher information.

    (a/beta) sqrt(Gamma(1/beta) / Gamma(2 - 1/beta)): a check of the radius, not a certificate.
    """
    information = math.lgamma(2 - 1 / beta) - math.lgamma(1 / beta)
    return noise_scale(sigma, beta) / beta * math.exp(-information / 2)


@dataclass(frozen=True)
class GeneralisedNormal:
    """The trade-off function between x and x + shift, x with density proportional to exp(-|x|^beta).

    shift is |e|/a for one coordinate that moves by e.
    """

    shift: float
    beta: float

    def __post_init__(self) -> None:
        check_shape(self.beta)
        if not self.shift >= 0:
            raise ValueError(f"shift must be at least 0, got {self.shift}")

    def __call__(self, alpha: float, /) -> float:
        """f(a) = F(F^-1(1 - a) - shift), F the distribution function of x, rounded down."""
        check_level(alpha)
        if alpha in (0, 1):
            return 1.0 - alpha
        tail = min(alpha, 1 - alpha)
        quantile = math.copysign(gammainccinv(1 / self.beta, 2 * tail) ** (1 / self.beta), 0.5 - alpha)
        moved = quantile - self.shift - ERROR * (abs(quantile) + self.shift)
        return down(float(self._survival(np.array(-moved)))) * (1 - 1e-12)

    def delta(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(loss > eps) - e^eps Q(loss > eps) for eps >= 0; the same in both directions, by symmetry.

        The loss |s/2 + u|^beta - |s/2 - u|^beta increases with u, the distance from the middle: bisect for loss = eps.
        A small error in u is of second order in delta, which is stationary there.
        """
        half = self.shift / 2
        low = np.zeros_like(epsilon)
        high = np.full_like(epsilon, half + FAR ** (1 / self.beta))
        for _ in range(64):
            middle = (low + high) / 2
            below = (middle + half) ** self.beta - np.abs(middle - half) ** self.beta <= epsilon
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        tail = self._survival(low + half)
        scaled = np.exp(np.minimum(epsilon, 700.0)) * tail
        return np.maximum(self._survival(low - half) - scaled, 0.0)

    def _survival(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        tail = gammaincc(1 / self.beta, np.abs(x) ** self.beta) / 2
        result: NDArray[np.float64] = np.where(x >= 0, tail, 1 - tail)
        return result
