"""The wealth of a bet against "p <= p0", which makes it sound to look at the votes as they arrive.

Each draw bets on a success probability q > p0 by the likelihood ratio of q to p0, with q mixed over a Beta(a, b) prior
truncated to q > p0. For p <= p0 each ratio has mean at most 1. So if the prior does not depend on the draws, the wealth
M_n is a supermartingale, and P(M_n >= c for any n) <= 1/c (Ville).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betaln, ndtr, xlog1py, xlogy

from ars.theory.rounding import ERROR

# Tolerance of the level search, in the radius or in Phi^-1 of the level: a larger level costs draws, not soundness.
CLOSE = 1e-6
# Phi^-1 of the largest probability below 1 that the search considers.
MOST = 8.0


def level_of(radius_of: Callable[[float], float], radius: float) -> float | None:
    """The smallest p, rounded up, with radius_of(p) >= radius; None if it would have to be 1.

    radius_of(p) is the model's certified radius if a class has probability at least p and every other class at most
    1 - p. So a class whose probability exceeds the level is certified at the radius. For a Gaussian guarantee the level
    is Phi(radius / tau), found at once because the radius is linear in Phi^-1(p). In general it is searched for.
    """
    if radius == 0:
        return 0.5
    low, high, found, reached, plateau = 0.0, MOST, 0.0, radius_of(float(ndtr(MOST))), False
    if reached < radius:
        return None
    while high - low > CLOSE * high and reached > (1 + CLOSE) * radius:
        # linear interpolation, moved up slightly; bisection if that makes too little progress
        guess = low + (high - low) * (radius - found) / (reached - found) * (1 + CLOSE / 4)
        middle = guess if low < guess < high - (high - low) / 64 and not plateau else (low + high) / 2
        value = radius_of(float(ndtr(middle)))
        plateau = value in (found, reached)  # in exact mode the radius is a step function
        if value >= radius:
            high, reached = middle, value
        else:
            low, found = middle, value
    return float(ndtr(high))


def levels_of(radius_of: Callable[[float], float], radii: Sequence[float]) -> tuple[float, ...]:
    """The levels of increasing radii, up to the last radius that votes could ever certify; they never decrease."""
    levels: list[float] = []
    for radius in radii:
        level = level_of(radius_of, radius)
        if level is None:
            break
        levels.append(max([level, *levels[-1:]]))
    return tuple(levels)


Floats = NDArray[np.float64]

# Below this the float64 value of an incomplete beta ratio may have lost its precision.
UNDERFLOW = 1e-290


def log_wealth(successes: ArrayLike, n: ArrayLike, *, prior: tuple[ArrayLike, ArrayLike], p0: ArrayLike) -> Floats:
    """ln M_n, rounded down: for p <= p0 and any stopping time, E M_n <= 1. Arguments broadcast.

    ln B(S+a, n-S+b) - ln B(a, b) + ln Ibar_p0(S+a, n-S+b) - ln Ibar_p0(a, b) - S ln p0 - (n-S) ln(1 - p0), with Ibar
    the upper incomplete beta ratio. p0 is a float64 number, so 1 - p0 is exact above 1/2. If either ratio underflows,
    the wealth is 0 (-inf): a floor under the posterior's would be unsound, and -ln 0 of the prior's would be +inf.
    """
    a, b = (np.asarray(part, dtype=np.float64) for part in prior)
    wins, draws, level = (np.asarray(part, dtype=np.float64) for part in (successes, n, p0))
    high, low = wins + a, draws - wins + b
    before, after = betaincc(a, b, level), betaincc(high, low, level)
    # False for NaN, which means no wealth either
    usable = (before > UNDERFLOW) & (after > UNDERFLOW)
    ratio = np.log(np.where(usable, after, 1.0)) - np.log(np.where(usable, before, 1.0))
    bets = _log_likelihood(wins, draws, level)
    wealth = betaln(high, low) - betaln(a, b) + ratio - bets
    total = high + low
    # betaln is a difference of log gamma functions, each of the size of total ln total
    error = ERROR * (total * np.log1p(total) + np.abs(bets) + np.abs(ratio))
    return np.where(usable, wealth - error, -np.inf)


def reaches(
    wealth: float,
    successes: NDArray[np.int64],
    n: NDArray[np.int64],
    *,
    prior: tuple[Floats, Floats],
    p0: Floats,
) -> NDArray[np.bool_]:
    """Whether S >= n p0 and M_n >= wealth, for arrays of one length.

    M_n is computed only where the likelihood ratio at q = S/n, which no mixture exceeds, reaches the wealth.
    """
    best = _log_likelihood(successes, n, successes / np.maximum(n, 1)) - _log_likelihood(successes, n, p0)
    possible = np.flatnonzero((successes >= n * p0) & (best >= np.log(wealth)))
    a, b = prior
    reached = np.zeros(len(successes), dtype=bool)
    reached[possible] = log_wealth(
        successes[possible], n[possible], prior=(a[possible], b[possible]), p0=p0[possible]
    ) >= np.log(wealth)
    return reached


def _log_likelihood(successes: NDArray[Any], n: NDArray[Any], p: Floats) -> Floats:
    """S ln p + (n - S) ln(1 - p), with 0 ln 0 = 0."""
    return np.asarray(xlogy(successes, p) + xlog1py(n - successes, -p))
