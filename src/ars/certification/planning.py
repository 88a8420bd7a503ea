"""How many draws a radius needs, planned from the selection draws alone.

The estimation draws are independent of the plan, so a bound at full alpha holds at the planned N as at any fixed N.
Nothing here can make a certificate wrong; a poor plan only costs draws or radius.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri
from scipy.stats import beta, binom

from ars.certification.bounds import TOP_SHARE, Bound
from ars.certification.settings import BLOCK

# Beta prior of p: Jeffreys' at 0, and more mass at 1, because smoothed classifiers are often almost unanimous. An
# image with unanimous votes loses 1.4% of its radius at a tolerance of 1% (n_max = 50,000, alpha = .05); with
# Jeffreys' 1/2 for the misses it would lose 3.7%.
PRIOR_HITS, PRIOR_MISSES = 0.5, 0.1
# Numbers of quantiles that approximate the posterior of p, and the distribution of the votes given p.
POSTERIOR_NODES = 48
VOTE_NODES = 8


def plan_draws(selected: Sequence[int], *, alpha: float, bound: Bound, n_max: int, tolerance: float) -> int:
    """The smallest N, in whole blocks, whose expected radius is at least 1 - tolerance times that at n_max.

    The expectation is over the posterior of the candidate's probability given its selection votes. The other votes are
    distributed as in the selection draws. Radii are those of a Gaussian guarantee, up to its scale.
    """
    votes = sorted((int(count) for count in selected), reverse=True)
    runner_up = votes[1] if len(votes) > 1 else 0
    return _plan(votes[0], runner_up, sum(votes), len(votes), alpha, bound, n_max, tolerance)


@lru_cache(maxsize=4096)
def _plan(top: int, second: int, n: int, classes: int, alpha: float, bound: Bound, n_max: int, tolerance: float) -> int:
    share = (second + 0.5) / (n - top + 0.5 * max(classes - 1, 1))
    middles = (np.arange(POSTERIOR_NODES) + 0.5) / POSTERIOR_NODES
    p = beta.ppf(middles, top + PRIOR_HITS, n - top + PRIOR_MISSES)
    rivals = max(classes - 1, 1)
    target = (1 - tolerance) * _expected_margin(p, share, rivals, n_max, alpha, bound)
    low, high = 0, -(-n_max // BLOCK)
    while high - low > 1:
        middle = (low + high) // 2
        enough = _expected_margin(p, share, rivals, middle * BLOCK, alpha, bound) >= target
        low, high = (low, middle) if enough else (middle, high)
    return min(n_max, high * BLOCK)


def _expected_margin(p: NDArray[np.float64], share: float, rivals: int, n: int, alpha: float, bound: Bound) -> float:
    """E max(0, (Phi^-1(lower) - Phi^-1(upper)) / 2) over p and the votes of n draws."""
    middles = (np.arange(VOTE_NODES) + 0.5) / VOTE_NODES
    misses = binom.ppf(middles[:, None], n, 1 - p)
    level = alpha if bound == "cohen" else TOP_SHARE * alpha
    lower = betaincinv(np.maximum(n - misses, 0.5), misses + 1, level)
    high, low = ndtri(lower), -ndtri(lower)
    if bound == "classes":
        second = np.minimum(share, 1) * misses
        upper = betainccinv(second + 1, np.maximum(n - second, 0.5), (1 - TOP_SHARE) * alpha / rivals)
        low = np.minimum(low, ndtri(upper))
    return float(np.maximum(0, (high - low) / 2).mean())
