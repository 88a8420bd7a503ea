"""The wealth of a bet against "p <= p0": what makes looking at the votes as they come in sound.

Each draw bets on a success probability q > p0, by the likelihood ratio of q to p0; q is mixed over a Beta(a, b) prior
cut off at p0. For p <= p0 each ratio has mean at most 1, so the wealth M_n is a supermartingale, as long as the prior
does not see the draws, and P(M_n >= c for any n) <= 1/c (Ville).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betaln, xlog1py, xlogy

from ars.theory.rounding import ERROR

Floats = NDArray[np.float64]

# Below this the float64 value of an incomplete beta ratio may have lost its digits.
UNDERFLOW = 1e-290


def log_wealth(successes: ArrayLike, n: ArrayLike, *, prior: tuple[ArrayLike, ArrayLike], p0: ArrayLike) -> Floats:
    """ln M_n, rounded down: for p <= p0 and whenever one stops, E M_n <= 1. Arguments broadcast.

    ln B(S+a, n-S+b) - ln B(a, b) + ln Ibar_p0(S+a, n-S+b) - ln Ibar_p0(a, b) - S ln p0 - (n-S) ln(1 - p0), with Ibar
    the upper incomplete beta ratio. p0 is a float64 number, so 1 - p0 is exact above 1/2. Where either ratio underflows
    there is no wealth, -inf: a floor under the posterior's would be unsound, and -ln 0 of the prior's would be +inf.

    >>> float(log_wealth(0, 0, prior=(0.5, 0.5), p0=0.5).round(9))
    -0.0
    """
    a, b = (np.asarray(part, dtype=np.float64) for part in prior)
    wins, draws, level = (np.asarray(part, dtype=np.float64) for part in (successes, n, p0))
    high, low = wins + a, draws - wins + b
    before, after = betaincc(a, b, level), betaincc(high, low, level)
    # written so that NaN is no wealth either
    usable = (before > UNDERFLOW) & (after > UNDERFLOW)
    ratio = np.log(np.where(usable, after, 1.0)) - np.log(np.where(usable, before, 1.0))
    bets = _log_likelihood(wins, draws, level)
    wealth = betaln(high, low) - betaln(a, b) + ratio - bets
    total = high + low
    # betaln is a difference of log gamma functions, each as large as total ln total
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

    M_n is computed only where the likelihood ratio at q = S/n, which no mixture exceeds, gets so far.
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
