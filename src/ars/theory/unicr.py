"""The Linf radius of i.i.d. generalised normal noise (UniCR's noise), by two proved bounds.

**The differential bound.** Let S = sum of d scores Y_i = beta sign(x_i)|x_i|^(beta-1), x in units of the scale a. Along
a path inside the Linf ball, the probability p of any event changes by at most Psi(p) = sup {E[S 1_A] : P(A) = p} per
unit of the radius: the rate is sup_A E[sum e_i Y_i 1_A], convex and even in every e_i, so e = (1, ..., 1) is the worst.
With H(p) = integral of du/Psi(u) from 1/2 to p, the label holds while H(p+) - r > H(p-) + r.

**Composition.** Every coordinate is an f-DP mechanism, composed d times numerically; the radius solves Prop. 2.1.

In exact arithmetic the first is never above the second (equal for d = 1 or beta = 2). The first is reported. If
numerical errors make the second smaller at the neighbouring knots, the first is reduced by their ratio.

E(S - q)_+ is bounded from above: a score is spread over the two grid points around it, preserving its mean. This is
larger in convex order, also for the sum. The sum is computed by FFT under exponential tilts, which preserve the
relative accuracy of the tail. The error of the FFT is added as mass at the worst place.
"""

import bisect
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincc

from ars.theory.generalised_normal import GeneralisedNormal, check_shape, large_dim_noise, noise_scale
from ars.theory.numeric import Floats, Numeric, convolution_power
from ars.theory.radius import ars_radius_linf
from ars.theory.rounding import as_number, down, not_above, not_below

# Levels, in standard deviations of S, of the lines that bound Psi.
LEVELS = np.arange(0.0, 9.0, 1e-3)
# Radii, in units of the large-d noise over sqrt(d), at which the two bounds are compared.
KNOTS = (0.25, 1.0, 2.0, 4.0, 6.0)
# Rounding in the closed-form pieces of the integral, and in the second differences of the weights, is far below this.
MARGIN = 1e-9
# Grid step relative to the standard deviation of a score: Psi is overstated by about a twelfth of its square.
STEP = 4e-3
# A score's tail beyond |x|^beta = this is charged in full; it is about exp(-80).
FAR = 80.0
# Tilts in standard deviations of S; each gives a bound at every q, best around q = tilt.
TILTS = (0.5, 2.0, 4.0, 6.0, 8.0)
# Total variation charged for the FFT and its truncation, for each of the d factors.
FFT_ERROR = 1e-14
TRUNCATION = 1e-18


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


def score_variance(beta: float) -> float:
    """E Y^2 = beta^2 Gamma(2 - 1/beta) / Gamma(1/beta), Y = beta sign(x)|x|^(beta-1): the Fisher information."""
    return beta**2 * math.exp(math.lgamma(2 - 1 / beta) - math.lgamma(1 / beta))


def score_weights(beta: float) -> tuple[float, Floats, float]:
    """(step, weights at -K..K, E(Y - K step)_+): the second differences of c(y) = E(Y - y)_+ over the step.

    With g = (y/beta)^(beta/(beta-1)): c(y) = beta e^-g / (2 Gamma(1/beta)) - y P(Gamma(1/beta) > g) / 2.
    """
    if beta == 1:  # the score is a sign: two atoms, on a grid of step 1
        return 1.0, np.array([0.5, 0.0, 0.5]), 0.0
    step = STEP * math.sqrt(score_variance(beta))
    size = math.ceil(beta * FAR ** (1 - 1 / beta) / step)
    y = step * np.arange(size + 1)
    g = (y / beta) ** (beta / (beta - 1))
    excess = beta * np.exp(-g) / (2 * math.gamma(1 / beta)) - y * gammaincc(1 / beta, g) / 2
    excess = np.maximum(excess, 0.0)
    fall = -np.diff(excess)
    upper = np.append(fall[:-1] - fall[1:], fall[-1]) / step
    weights = np.concatenate([upper[::-1], [1 - 2 * fall[0] / step], upper])
    return step, np.maximum(weights, 0.0), float(excess[-1])


def expected_excess(beta: float, dim: int, levels: Floats) -> tuple[Floats, Floats]:
    """(q, bound on E(S - q)_+) at levels >= 0 given in standard deviations of S, moved to the grid."""
    step, weights, cut = score_weights(beta)
    size = len(weights) // 2
    deviation = math.sqrt(dim * score_variance(beta))
    index = np.unique(np.floor(levels * deviation / step).astype(np.int64))
    best = np.full(len(index), math.inf)
    for tilt in TILTS:
        rate = tilt * step / deviation
        tilted = weights * np.exp(rate * np.arange(-size, size + 1))
        moment = float(tilted.sum())
        start, mass = convolution_power(tilted / moment, dim, TRUNCATION)
        start -= dim * size
        place = index - start
        inside = (place >= 0) & (place < len(mass))
        bound = np.where(place < 0, math.inf, 0.0)  # no bound below the grid, only the error above it
        bound[inside] = _excess(mass, rate)[place[inside]]
        # (s - q) e^(-rate (s - q)) is at most 1 / (e rate): the FFT's possible error, at the worst place
        bound += FFT_ERROR * dim / (math.e * rate)
        best = np.minimum(best, np.exp(dim * math.log(moment) - rate * index) * bound)
    return np.float64(step) * index, (step * best + dim * cut) * (1 + MARGIN)


def _excess(mass: Floats, rate: float) -> Floats:
    """Sum over k >= j of (k - j) e^(-rate (k - j)) mass[k] for every j, by a recursion without cancellation."""
    from scipy.signal import lfilter  # slow to import and needed only here

    shrink = math.exp(-rate)
    total = lfilter([1.0], [1.0, -shrink], mass[::-1])
    excess: Floats = lfilter([0.0, shrink], [1.0, -shrink], total)[::-1]
    return excess
