"""Confidence bounds on the class probabilities, from the votes of N independent draws."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

from scipy.special import betainc, betaincc, betainccinv, betaincinv

from ars.theory.rounding import ERROR, as_number

Bound = Literal["cohen", "classes"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)

# The predicted class's share of alpha in the class bounds; an even split loses .02 to .05 tau.
TOP_SHARE = 0.9
# The inverse incomplete beta function may round in either direction, so it is evaluated slightly below alpha. Its error
# can be larger than that (tail 4e-8 above alpha at 99,001 of 100,000, alpha 1e-6), so the tail itself is checked too.
LEVEL = 1 - 1e-9
CHECKED = 1 - 5e-10
REMEMBERED = 2**16  # bounds, which reports compute again for every record
# The range of alpha, and the level, after alpha was split, below which no bound is given: tails below 1e-244 are
# computed as 0.
LEAST_ALPHA, MOST_ALPHA, LEAST_LEVEL = 1e-100, 0.5, 1e-200


def check_alpha(alpha: float) -> float:
    """Refuse a failure probability outside the range, such as a confidence given by mistake."""
    alpha = as_number("alpha", alpha)
    if not LEAST_ALPHA <= alpha <= MOST_ALPHA:
        raise ValueError(
            f"alpha must lie between {LEAST_ALPHA:g} and {MOST_ALPHA}, got {alpha}; it is the probability that a "
            "certificate may be wrong: for a confidence of 95% give 0.05"
        )
    return alpha


def lower_bound(successes: int, n: int, alpha: float) -> float:
    """Clopper-Pearson: with probability at least 1 - alpha, p >= lower_bound.

    >>> lower_bound(0, 10, 0.05), round(lower_bound(10, 10, 0.05), 4)
    (0.0, 0.7411)
    """
    return _lower_bound(successes, n, _checked(successes, n, alpha))


@lru_cache(maxsize=REMEMBERED)
def _lower_bound(successes: int, n: int, alpha: float) -> float:
    if successes == 0 or alpha < LEAST_LEVEL:
        return 0.0
    shape = successes, n - successes + 1
    p, step = float(betaincinv(*shape, alpha * LEVEL)), ERROR
    while betainc(*shape, p) > alpha * CHECKED:
        p, step = p * (1 - step), 2 * step
    return 0.0 if math.isnan(p) else p  # SciPy's inverse may fail


def upper_bound(successes: int, n: int, alpha: float) -> float:
    """Clopper-Pearson: with probability at least 1 - alpha, p <= upper_bound."""
    return _upper_bound(successes, n, _checked(successes, n, alpha))


@lru_cache(maxsize=REMEMBERED)
def _upper_bound(successes: int, n: int, alpha: float) -> float:
    if successes == n or alpha < LEAST_LEVEL:
        return 1.0
    shape = successes + 1, n - successes
    p, step = float(betainccinv(*shape, alpha * LEVEL)), ERROR
    while betaincc(*shape, p) > alpha * CHECKED:
        p, step = min(1.0, p * (1 + step)), 2 * step
    return 1.0 if math.isnan(p) else p


def most_misses(n: int, p: float, alpha: float) -> int:
    """The most misses of n draws at which P(Bin(n, p) >= hits) <= alpha, or -1."""
    if alpha < LEAST_LEVEL:
        return -1
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        passes = betainc(n - middle, middle + 1, p) <= alpha * CHECKED
        low, high = (middle, high) if passes else (low, middle)
    return low


def class_probabilities(counts: Sequence[int], top: int, alpha: float, bound: Bound) -> tuple[float, float]:
    """(lower, upper): with probability at least 1 - alpha, p_top >= lower and every other p_c <= upper.

    top must have been chosen without looking at these counts.

    - "cohen": lower at level alpha, upper = 1 - lower (Cohen et al.).
    - "classes": lower at level 0.9 alpha. The K - 1 other classes, including those without votes, share the rest of
      alpha (union bound), and their largest count gives the upper bound.
    """
    alpha = check_alpha(alpha)
    if not 0 <= top < len(counts):
        raise ValueError(f"top must be one of the {len(counts)} classes, got {top}")
    n = sum(counts)
    if bound == "cohen":
        lower = lower_bound(counts[top], n, alpha)
        return lower, 1 - lower
    if bound == "classes":
        lower = lower_bound(counts[top], n, TOP_SHARE * alpha)
        others = [count for label, count in enumerate(counts) if label != top]
        if not others:
            raise ValueError("class bounds need at least two classes")
        runner_up = upper_bound(max(others), n, (1 - TOP_SHARE) * alpha / len(others))
        return lower, min(1 - lower, runner_up)
    raise ValueError(f"bound must be one of {', '.join(BOUNDS)}, got {bound!r}")


def least_draws(alpha: float, bound: Bound) -> int:
    """The smallest N at which unanimous votes certify anything: alpha^(1/N) > 1/2."""
    check_alpha(alpha)
    n = 1
    while class_probabilities([n, 0], 0, alpha, bound)[0] <= 0.5:
        n += 1
    return n


def _checked(successes: int, n: int, alpha: float) -> float:
    alpha = as_number("alpha", alpha)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"need 0 <= successes <= n and n >= 1, got {successes} of {n}")
    return alpha
