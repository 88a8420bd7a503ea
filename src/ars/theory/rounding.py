"""Rounding to the safe side.

A float64 result is moved past its error bound: noise and privacy loss up, probabilities and radii down.
The bound is generous (the functions used are good to about 4 ulp) and costs nothing visible.
"""

from decimal import ROUND_FLOOR, Context, Decimal

ERROR = 16 * 2.0**-52


def up(value: float) -> float:
    """A number above the exact value of which ``value`` is the float64 result."""
    return value * (1 + ERROR) if value >= 0 else value * (1 - ERROR)


def down(value: float) -> float:
    """A number below the exact value of which ``value`` is the float64 result."""
    return -up(-value)


def truncate(value: float, decimals: int) -> str:
    """Print a radius with its decimals cut, never rounded up.

    >>> truncate(0.01999, 3), truncate(0.29, 2)
    ('0.019', '0.29')
    """
    # in decimal arithmetic: 0.29 * 100 is 28.999999999999996 in float64
    shortest = Decimal(repr(float(value)))
    cut = shortest.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_FLOOR, context=Context(prec=400))
    return f"{cut:f}"
