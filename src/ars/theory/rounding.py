"""Rounding to the safe side, and arguments that are taken exactly.

Arguments come from Python, NumPy or torch; text and booleans are refused, and nothing is truncated. A float64 result is
moved past its error bound: noise and privacy loss up, probabilities and radii down. The bound is generous (the
functions used are accurate to about 4 ulp) and has no visible cost.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction
from operator import index
from typing import Any, SupportsFloat

ERROR = 16 * 2.0**-52
SMALLEST = 16 * 2.0**-1074
"""The absolute error below 2^-1022, where float64 loses its relative precision; negligible above."""


def as_number(name: str, value: Any) -> float:
    """The value as a float64."""
    if not isinstance(value, bool) and isinstance(value, SupportsFloat):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):  # an array or tensor with several numbers
            pass
    raise ValueError(f"{name} must be a number, got {value!r}")


def not_above(name: str, value: Any) -> float:
    """The largest float64 that is not above the value, which may be a fraction between two of them."""
    number = as_number(name, value)
    return math.nextafter(number, -math.inf) if number > value else number


def not_below(name: str, value: Any) -> float:
    """The smallest float64 that is not below the value."""
    number = as_number(name, value)
    return math.nextafter(number, math.inf) if number < value else number


def as_whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """The value as a plain integer."""
    try:
        number = least - 1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {number}")
    return number


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
    return f"{Decimal(math.floor(exact * 10**decimals)).scaleb(-decimals, Context(prec=400)):f}"
