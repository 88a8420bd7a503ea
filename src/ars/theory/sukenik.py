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
"""

import math

from scipy.special import ndtri

from ars.theory.arguments import as_number, not_above
from ars.theory.chi_squared import MOST, check_size, tail_bounds
from ars.theory.radius import rs_radius_l2
from ars.theory.rounding import down
from ars.theory.threat import Norm, check_dim, check_norm

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
    moved, room = distance / sigma, math.sqrt(MOST - dim)
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

    >>> sukenik_radius(0.5, 0.01, 3072, 0.5)
    0.0
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
