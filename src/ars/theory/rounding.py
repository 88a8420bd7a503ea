"""Rounding to the safe side.

A float64 result is moved past its error bound: noise and privacy loss up, probabilities and radii down.
The bound is generous (the functions used are accurate to about 4 ulp) and has no visible cost.
"""

from decimal import Context, Decimal
from fractions import Fraction
from math import floor

ERROR = 16 * 2.0**-52
SMALLEST = 16 * 2.0**-1074
"""The absolute error below 2^-1022, where float64 loses its relative precision; negligible above."""


def up(value: float) -> float:
    """A number above the exact value whose float64 result is ``value``; 0 is taken as exact."""
    if value > 0:
        return value * (1 + ERROR) + SMALLEST
    if value < 0:
        return min(0.0, value * (1 - ERROR) + SMALLEST)
    return value  # 0, or not a number


def down(value: float) -> float:
    """A number below the exact value whose float64 result is ``value``."""
    return -up(-value)


def truncate(value: float | Fraction, decimals: int) -> str:
    """A radius with its decimals truncated, never rounded up.

    A float stands for its shortest decimal representation; a fraction is exact.

    >>> truncate(0.01999, 3), truncate(0.29, 2), truncate(Fraction(0.29), 2)
    ('0.019', '0.29', '0.28')
    """
    # not in float64, where 0.29 * 100 is 28.999999999999996
    exact = value if isinstance(value, Fraction) else Fraction(repr(float(value)))
    return f"{Decimal(floor(exact * 10**decimals)).scaleb(-decimals, Context(prec=400)):f}"
