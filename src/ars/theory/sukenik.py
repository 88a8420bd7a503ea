"""The certificate of Sukenik et al. (2022) for Gaussian noise whose level sigma(x) depends on the image.

Given |log sigma(x') - log sigma(x)| <= rate ||x' - x||, an image at distance a has s1 in [s0 e^-k, s0 e^k], k = rate a.
The worst region of probability p_B under N(x, s0^2 I) is a ball (s1 < s0) or the outside of one (s1 > s0), and its
probability xi under N(x', s1^2 I) is a non-central chi-squared tail. **The label holds out to a if xi < 1/2 at both
ends of the interval for this one a**: were xi >= 1/2 at some a' <= a and s1' in the interval of a', it would be so

1. at (a, s1'). For s1' > s0 the worst region excludes a ball centred on the far side of x, whose mass falls as x'
   moves away. For s1' < s0 the centre of the worst ball lies beyond x' by a fixed factor, so its mass grows until x'
   gets there, and from there on with the worst ball of that place. In both cases xi does not fall.
2. at (a, the end beyond s1'). For s1' <= s0, a ball with half of the mass around x' contains x', so less noise puts
   more mass inside. For s1' >= s0, the excluded ball has at most half of the mass. If it contains x', more noise takes
   mass from it. If not, a half-space separates it from x', and it has at most half of the mass under any noise.

So the certified distances are an interval from 0, and a search finds its end.

The tail is a Poisson mixture of central ones: P(X <= x) = sum over j of Poisson(j; lambda/2) P(chi2_{d+2j} <= x). Every
term is positive, so nothing cancels and a small tail keeps its precision. The weight of the omitted terms bounds them.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, ndtri

from ars.theory.radius import rs_radius_l2
from ars.theory.rounding import as_number, down, not_above
from ars.theory.threat import Norm, check_dim, check_norm

# SciPy's incomplete gamma functions are accurate to about 1e-13 up to here, except in the far lower tail, where a
# truncated series makes them too small: by 1e-8 of a value below 1e-6.
MOST_SIZE = 1_200_000
RELATIVE = 1e-9
# A generous bound on the Poisson mass outside the window of 12 standard deviations and 60 more counts either way.
OUTSIDE = 1e-25
# The combined error of two values of log sigma, from computing them and from rounding the noise to float32.
LOG_ERROR = 2.0**-23 + 1e-9
# The interval of s1 is widened if the non-centrality would exceed MOST_CENTRE^2; a wider interval is always safe.
MOST_CENTRE = 1000.0
# How far below 1/2 the far tail is placed, to be certain of its side, and how close to the end the search stops.
HALF_GAP = 1e-9
CLOSE = 1e-8


def worst_level(distance: float, sigma: float, rate: float, dim: int) -> float:
    """The largest proved p_B at which xi < 1/2 on both sides, at this distance and so at every smaller one.

    The interval of s1 is widened if the non-centrality, at most (moved / (1 - e^-2k))^2, would be too large to compute.
    If no interval is wide enough, the result is 0: nothing is proved.
    """
    check_size(dim, 0.0)
    moved, room = distance / sigma, math.sqrt(MOST_SIZE - dim)
    if moved >= room:
        return 0.0
    least = max(moved / (2 * MOST_CENTRE), -math.log1p(-moved / room) / 2)
    log_range = max(rate * distance + LOG_ERROR, least * (1 + 1e-6))
    return min(_level(moved, -log_range, dim), _level(moved, log_range, dim))


def _level(moved: float, log_ratio: float, dim: int) -> float:
    """p_B at which xi = 1/2 for s1 = s0 e^log_ratio, in units of s0, from below; 0 if it cannot be shown.

    With D = 1 - (s1/s0)^2 the region is |x - moved/D| <= rho, or > rho for s1 > s0. rho is chosen so that the region
    has at most half of the mass at x'. The result is its mass at x, with squared centre distance (moved/D)^2.
    """
    upper = log_ratio > 0
    ratio, centre = math.exp(log_ratio), moved / math.expm1(2 * log_ratio)
    far, near = (centre * ratio) ** 2, centre**2
    spread = math.sqrt(2 * (dim + 2 * far))
    rho = dim + far - 2 / 3 * (dim + 3 * far) / (dim + 2 * far)  # the median, to the third moment
    for _ in range(20):
        high = tail_bounds(rho, dim, far, upper=upper)[1]
        if high <= 0.5 and 0.5 - high < 3 * HALF_GAP:
            return tail_bounds(rho * ratio**2, dim, near, upper=upper)[0]
        step = (0.5 - HALF_GAP - high) * math.sqrt(2 * math.pi) * spread
        rho += -step if upper else step
    return 0.0


def sukenik_radius(sigma: float, rate: float, dim: int, p_plus: float, *, norm: Norm = "l2") -> float:
    """The certified radius around an image with noise level sigma = sigma(x); the L2 radius over sqrt(dim) for Linf.

    p_plus bounds the probability of the label from below. The runner-up is bounded by 1 - p_plus, because the argument
    above is for the level 1/2.
    """
    check_norm(norm)
    check_dim(dim)
    sigma, rate, p_plus = as_number("sigma", sigma), as_number("rate", rate), not_above("p_plus", p_plus)
    if not (0 < sigma < math.inf and 0 <= rate < math.inf):
        raise ValueError(f"need a positive sigma and a rate of at least 0, got sigma={sigma}, rate={rate}")
    p_other = 1 - p_plus
    radius = bound = rs_radius_l2(sigma, p_plus, p_other) if p_plus > 0.5 else 0.0
    if rate > 0 and bound > 0:
        radius = down(_search(bound, sigma, rate, dim, p_other))
    return radius if norm == "l2" else down(radius / math.sqrt(dim))


def _search(bound: float, sigma: float, rate: float, dim: int, p_other: float) -> float:
    """The largest distance found that is proved for p_other; Phi^-1 of the level is almost linear in the distance."""
    good, bad, distance = 0.0, bound, bound * (1 - 1e-6)
    wanted = float(ndtri(p_other))
    for _ in range(60):
        level = worst_level(distance, sigma, rate, dim)
        if level > p_other:
            good = distance
        else:
            bad = distance
        if bad - good <= CLOSE * bad:
            break
        guess = distance * wanted / float(ndtri(level)) if 0 < level < 0.5 else 0.0
        guess *= 1 - CLOSE / 4 if level <= p_other else 1 + CLOSE / 4  # to the other side of the end
        distance = guess if good < guess < bad else (good + bad) / 2
    return good


def check_size(dim: int, noncentrality: float) -> None:
    """Refuse sizes for which the special functions have not been checked."""
    if not (dim >= 1 and noncentrality >= 0 and dim + noncentrality <= MOST_SIZE):
        raise ValueError(
            f"need dim >= 1, non-centrality >= 0 and a sum of at most {MOST_SIZE}, got {dim}, {noncentrality}"
        )


def tail_bounds(x: float, dim: int, noncentrality: float, *, upper: bool) -> tuple[float, float]:
    """(low, high) around P(X > x) if upper, else P(X <= x), X non-central chi-squared with dim degrees of freedom."""
    check_size(dim, noncentrality)
    if x <= 0:
        return (1.0, 1.0) if upper else (0.0, 0.0)
    counts, weights = _poisson(noncentrality / 2)
    tail = (gammaincc if upper else gammainc)(dim / 2 + counts, x / 2)
    value = float(weights @ tail)
    return value * (1 - RELATIVE), min(1.0, value * (1 + RELATIVE) + OUTSIDE)


def _poisson(mean: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The relevant counts and their probabilities, by ratios outwards from the mode: no large logarithms."""
    mode = math.floor(mean)
    reach = math.ceil(12 * math.sqrt(mean)) + 60
    above = np.cumprod(mean / np.arange(mode + 1, mode + reach + 1))
    below = np.cumprod(np.arange(mode, max(mode - reach, 0), -1) / mean) if mode else np.empty(0)
    weights = np.concatenate([below[::-1], [1.0], above])
    counts = np.arange(mode - len(below), mode + reach + 1, dtype=np.float64)
    return counts, weights / weights.sum()
