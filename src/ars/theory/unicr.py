"""The Linf radius of i.i.d. generalised normal noise (UniCR's noise), by two proved bounds.

**The differential bound.** Let S = sum of d scores Y_i = beta sign(x_i)|x_i|^(beta-1), x in units of the scale a. Along
a path inside the Linf ball, the probability p of any event changes by at most Psi(p) = sup {E[S 1_A] : P(A) = p} per
unit of the radius: the rate is sup_A E[sum e_i Y_i 1_A], convex and even in every e_i, so e = (1, ..., 1) is the worst.
With H(p) = integral of du/Psi(u) from 1/2 to p, the label holds while H(p+) - r > H(p-) + r.

**Composition.** Every coordinate is an f-DP mechanism, composed d times numerically; the radius solves Prop. 2.1.

In exact arithmetic the first is never above the second (equal for d = 1 or beta = 2). The first is reported. If
numerical errors make the second smaller at the neighbouring knots, the first is reduced by their ratio.
"""

import bisect
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ars.theory.arguments import as_number, not_above, not_below
from ars.theory.generalised_normal import GeneralisedNormal, check_shape, large_dim_noise, noise_scale
from ars.theory.numeric import Numeric
from ars.theory.radius import ars_radius_linf
from ars.theory.rounding import down
from ars.theory.score_sum import expected_excess

Floats = NDArray[np.float64]

# Levels, in standard deviations of S, of the lines that bound Psi.
LEVELS = np.arange(0.0, 9.0, 1e-3)
# Radii, in units of the large-d noise over sqrt(d), at which the two bounds are compared.
KNOTS = (0.25, 1.0, 2.0, 4.0, 6.0)
# Rounding in the closed-form pieces of the integral is far below this.
MARGIN = 1e-9


@dataclass(frozen=True)
class DifferentialBound:
    """H(p) for p <= 1/2 with Psi(p) <= q p + E(S - q)_+, one line for each q; rounded towards 0.

    The piece below corner[k] uses line k. The reciprocal of a line integrates in closed form: no quadrature error.
    """

    level: Floats
    excess: Floats
    corner: Floats
    depth: Floats

    def __call__(self, p: float) -> float:
        """The integral of du/Psi(u) from min(p, 1 - p) to 1/2, negative for p < 1/2."""
        tail = min(p, 1 - p)
        line = max(0, int(np.searchsorted(-self.corner, -tail, side="right")) - 1)
        piece = _piece(self.level[line], self.excess[line], np.array(tail), self.corner[line])
        return math.copysign((float(self.depth[line]) + float(piece)) * (1 - MARGIN), p - 0.5)


@lru_cache(maxsize=64)
def differential_bound(beta: float, dim: int) -> DifferentialBound:
    """Tabulate H for noise of scale 1; Psi(p) = min over q of q p + E(S - q)_+, so any q gives an upper bound."""
    level, excess = expected_excess(beta, dim, LEVELS)
    crossing = -np.diff(excess) / np.diff(level)  # where lines k and k + 1 meet
    corner = np.minimum.accumulate(np.clip(np.concatenate([[0.5], crossing]), 0.0, 0.5))
    pieces = _piece(level[:-1], excess[:-1], corner[1:], corner[:-1])
    return DifferentialBound(level, excess, corner, np.concatenate([[0.0], np.cumsum(pieces)]))


def _piece(level: Floats, excess: Floats, low: Floats, high: Floats) -> Floats:
    """The integral of 1/(level p + excess) from low to high."""
    width, bottom = high - low, level * low + excess
    with np.errstate(invalid="ignore", divide="ignore"):
        sloped = np.log1p(level * width / bottom) / level
    return np.where(level > 0, sloped, width / bottom)


def differential_radius(beta: float, dim: int, p_plus: float, p_minus: float) -> float:
    """Half the integral of du/Psi(u) from p_minus to p_plus, for noise of scale a = 1; 0 if p_plus <= p_minus."""
    if p_plus <= p_minus:
        return 0.0
    bound = differential_bound(beta, dim)
    high, low = bound(p_plus), bound(p_minus)
    # H(p) is rounded towards 0, which is up for a negative H(p+) and down for a positive H(p-): correct it there
    high, low = (high * (1 + 2 * MARGIN) if high < 0 else high), (low * (1 + 2 * MARGIN) if low > 0 else low)
    return max(0.0, (high - low) / 2)


def composition_level(radius: float, beta: float, dim: int) -> float:
    """The largest 1 - p+ at which Prop. 2.1 holds against one other class, f(1 - p+) >= 1/2; noise of scale 1."""
    epsilon, delta = Numeric(((GeneralisedNormal(radius, beta), dim),)).profile
    return max(0.0, float(np.max(np.exp(-epsilon) * (0.5 - delta))), float(np.max(1 - delta - np.exp(epsilon) / 2)))


@lru_cache(maxsize=64)
def composition_ratios(beta: float, dim: int) -> tuple[tuple[float, float], ...]:
    """(p, radius by composition / radius by the differential bound) at the knots, p increasing."""
    unit = large_dim_noise(1.0, beta) / noise_scale(1.0, beta) / math.sqrt(dim)
    ratios = []
    for knot in KNOTS:
        level = composition_level(knot * unit, beta, dim)
        if level > 0:
            ratios.append((1 - level, knot * unit / differential_radius(beta, dim, 1 - level, level)))
    return tuple(ratios)


def unicr_radius_linf(sigma: float, beta: float, dim: int, p_plus: float, p_minus: float) -> float:
    """The certified Linf radius under noise of shape beta and standard deviation sigma in each of dim coordinates.

    p_plus bounds the probability of the label from below, p_minus that of every other class from above. The result is
    the differential radius, reduced by the smaller ratio of the neighbouring knots if composition gives less there.

    >>> unicr_radius_linf(0.5, 2.25, 3072, 0.5, 0.5)
    0.0
    """
    beta = check_shape(beta)
    sigma, p_plus, p_minus = as_number("sigma", sigma), not_above("p_plus", p_plus), not_below("p_minus", p_minus)
    gaussian = ars_radius_linf([sigma], dim, p_plus, p_minus)
    if beta == 2 or gaussian == 0:
        return gaussian
    ratios = composition_ratios(beta, dim)
    place = bisect.bisect([p for p, _ in ratios], max(p_plus, 1 - p_minus))
    ratio = min(1.0, *(ratio for _, ratio in ratios[max(0, place - 1) : place + 1]))
    return down(noise_scale(sigma, beta) * (1 - MARGIN) * ratio * differential_radius(beta, dim, p_plus, p_minus))
