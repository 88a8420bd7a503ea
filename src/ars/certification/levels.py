"""From a radius to the probability that its class must have: what a radius fixed in advance asks of the votes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from ars.theory import Ball, Gaussian, Norm, TradeOff, is_robust
from ars.theory.rounding import ERROR, up


@dataclass(frozen=True)
class Level:
    """A class with probability above p is certified; p, log_p >= ln p and log_q >= ln(1 - p) are rounded up."""

    p: float
    log_p: float
    log_q: float

    def __post_init__(self) -> None:
        if not 0 < self.p < 1:
            raise ValueError(f"a level must lie strictly between 0 and 1, got {self.p}")


class UnreachableRadius(ValueError):
    """A radius that asks for a probability of 1, which no number of draws can show."""


def level_of(f: TradeOff) -> Level:
    """The least p at which Prop. 2.1 holds with p_plus = p and p_minus = 1 - p, rounded up.

    Phi(mu) for G_mu, with 1 - p from the other tail, which keeps its digits; by bisection for any other f.

    >>> round(level_of(Gaussian(1.0)).p, 6)
    0.841345
    """
    if isinstance(f, Gaussian):
        p = up(float(ndtr(f.mu)))
        if not p < 1:
            raise UnreachableRadius(f"the class would need probability Phi({f.mu:g}), which is 1 in float64")
        return Level(p, up(float(log_ndtr(f.mu))), up(float(log_ndtr(-f.mu))))
    low, high = 0.5, math.nextafter(1.0, 0.0)
    if not is_robust(f, high, 1 - high):
        raise UnreachableRadius(f"no probability below 1 makes {f} robust")
    while high - low > ERROR:
        middle = (low + high) / 2
        low, high = (low, middle) if is_robust(f, middle, 1 - middle) else (middle, high)
    return Level(high, up(math.log(high)), up(math.log1p(-high)))


def levels_of(
    guarantee: Callable[[Ball], TradeOff], radii: Sequence[float], *, norm: Norm, dim: int
) -> tuple[Level, ...]:
    """The level of each radius of a grid; radii that no votes can certify are refused by name."""
    levels = []
    for radius in radii:
        try:
            levels.append(level_of(guarantee(Ball(norm, dim, radius))))
        except UnreachableRadius as error:
            raise UnreachableRadius(f"radius {radius:g} cannot be certified: {error}; leave it out") from error
    if np.any(np.diff([level.p for level in levels]) < 0):
        raise ValueError(f"the guarantee grows with the ball at radii {tuple(radii)}: it is not one for balls")
    return tuple(levels)
