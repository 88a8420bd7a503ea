"""Checks of numeric arguments from Python, NumPy or torch; text and booleans are refused, and nothing is truncated."""

import math
from operator import index
from typing import Any, SupportsFloat


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
