"""Bounds on the tails of the non-central chi-squared law that hold for large dimension and non-centrality.

The law is a Poisson mixture of central ones: P(X <= x) = sum over j of Poisson(j; lambda/2) P(chi2_{d+2j} <= x). Every
term is positive, so nothing cancels and a small tail keeps its precision. The weight of the omitted terms bounds them.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

# SciPy's incomplete gamma functions are accurate to about 1e-13 up to here, except in the far lower tail, where a
# truncated series makes them too small: by 1e-8 of a value below 1e-6.
MOST = 1_200_000
RELATIVE = 1e-9
# A generous bound on the Poisson mass outside the window of 12 standard deviations and 60 more counts either way.
OUTSIDE = 1e-25


def check_size(dim: int, noncentrality: float) -> None:
    """Refuse sizes for which the special functions have not been checked."""
    if not (dim >= 1 and noncentrality >= 0 and dim + noncentrality <= MOST):
        raise ValueError(f"need dim >= 1, non-centrality >= 0 and a sum of at most {MOST}, got {dim}, {noncentrality}")


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
