"""From a privacy guarantee to a certified radius: Prop. 2.1 for any f, and its Gaussian closed forms.

p_plus is a lower bound on the probability of the predicted class, p_minus an upper bound on every other one.
Each radius is strictly inside the exact one: a label never changes within the reported ball.
"""

import math
from collections.abc import Callable, Sequence

from scipy.special import ndtri

from ars.theory.composition import total_noise
from ars.theory.rounding import ERROR, down, not_above, not_below
from ars.theory.threat import Ball, Norm, check_dim
from ars.theory.tradeoff import Gaussian, TradeOff

# Prop. 2.1 compares two probabilities; their float64 values are far more accurate than this.
SLACK = 1e-12


def _checked(p_plus: float, p_minus: float) -> tuple[float, float]:
    p_plus, p_minus = not_above("p_plus", p_plus), not_below("p_minus", p_minus)
    if not 0 <= p_plus < 1:
        raise ValueError(f"p_plus must lie in [0, 1), got {p_plus}: no finite sample shows certainty")
    if not 0 < p_minus <= 1:
        raise ValueError(f"p_minus must lie in (0, 1], got {p_minus}: no finite sample rules a class out")
    return p_plus, p_minus


def gaussian_margin(p_plus: float, p_minus: float) -> float:
    """(Phi^-1(p_plus) - Phi^-1(p_minus)) / 2, rounded down, at least 0: the largest mu that G_mu may have."""
    p_plus, p_minus = _checked(p_plus, p_minus)
    if p_plus <= p_minus:
        return 0.0
    high, low = float(ndtri(p_plus)), float(ndtri(p_minus))
    return max(0.0, (high - low - ERROR * (abs(high) + abs(low))) / 2)


def is_robust(f: TradeOff, p_plus: float, p_minus: float) -> bool:
    """Prop. 2.1: f(1 - p_plus) > 1 - f(p_minus) implies that the label does not change."""
    if type(f) is Gaussian:  # a subclass may promise less
        return f.mu < gaussian_margin(p_plus, p_minus)
    p_plus, p_minus = _checked(p_plus, p_minus)
    return f(1 - p_plus) + f(p_minus) > 1 + SLACK


def certified_radius(
    guarantee: Callable[[Ball], TradeOff], p_plus: float, p_minus: float, *, norm: Norm, dim: int
) -> float:
    """The largest r, by bisection, at which Prop. 2.1 holds for guarantee(Ball(norm, dim, r)).

    The guarantee must weaken as the ball grows, which is true of every guarantee for a ball.
    """

    def holds(radius: float) -> bool:
        promised = guarantee(Ball(norm, dim, radius))
        if not callable(promised):
            got = type(promised).__name__
            raise TypeError(f"a guarantee must be a trade-off function such as ars.theory.Gaussian(mu), got {got}")
        return is_robust(promised, p_plus, p_minus)

    p_plus, p_minus = _checked(p_plus, p_minus)
    if not holds(0.0) or p_plus <= p_minus:
        return 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2 * high
        if math.isinf(high):
            raise ValueError("the guarantee holds at every radius: it does not depend on the ball")
    while high - low > ERROR * high:
        middle = (low + high) / 2
        if middle in (low, high):  # no float lies between the two
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def rs_radius_l2(sigma: float, p_plus: float, p_minus: float) -> float:
    """Cor. 2.2: sigma/2 (Phi^-1(p_plus) - Phi^-1(p_minus)).

    >>> round(rs_radius_l2(0.5, 0.99, 0.01), 4)
    1.1632
    """
    return ars_radius_l2([sigma], p_plus, p_minus)


def rs_radius_linf(sigma: float, dim: int, p_plus: float, p_minus: float) -> float:
    """Eq. (4): the L2 radius of Cor. 2.2 over sqrt(dim)."""
    return ars_radius_linf([sigma], dim, p_plus, p_minus)


def ars_radius_l2(sigmas: Sequence[float], p_plus: float, p_minus: float) -> float:
    """Thm 2.3: 1/(2 sqrt(sum 1/sigma_i^2)) (Phi^-1(p_plus) - Phi^-1(p_minus)), for unmasked steps."""
    return down(total_noise(sigmas) * gaussian_margin(p_plus, p_minus))


def ars_radius_linf(sigmas: Sequence[float], dim: int, p_plus: float, p_minus: float) -> float:
    """Prop. 2.4, for any number of steps, masked or not: the radius of Thm 2.3 over sqrt(dim)."""
    check_dim(dim)
    return down(ars_radius_l2(sigmas, p_plus, p_minus) / math.sqrt(dim))
