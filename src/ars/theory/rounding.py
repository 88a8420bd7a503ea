"""Rounding to the safe side.

A float64 result is moved past its error bound: noise and privacy loss up, probabilities and radii down.
The bound is generous (the functions used are good to about 4 ulp) and costs nothing visible.
"""

import math

ERROR = 16 * 2.0**-52


def up(value: float) -> float:
    """A number above the exact value of which ``value`` is the float64 result."""
    return value * (1 + ERROR) if value >= 0 else value * (1 - ERROR)


def down(value: float) -> float:
    """A number below the exact value of which ``value`` is the float64 result."""
    return -up(-value)


def truncate(value: float, decimals: int) -> str:
    """Print a radius with its decimals cut, never rounded up.

    >>> truncate(0.01999, 3), truncate(0.2, 1)
    ('0.019', '0.2')
    """
    scale: int = 10**decimals
    cut = math.floor(value * scale) / scale
    if cut > value:  # value * scale was rounded up to the next integer
        cut = (math.floor(value * scale) - 1) / scale
    return f"{cut:.{decimals}f}"
