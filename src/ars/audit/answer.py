"""What a check answers, and the level at which a random check refuses a model."""

from typing import Any, NamedTuple

from scipy.stats import beta

from ars.runs.audits import FAMILY_LEVEL

LEVEL = FAMILY_LEVEL / 12
"""The probability that one check refuses a sound model is at most this; there are 12 checks."""


class Answer(NamedTuple):
    """Whether a model passes, None if the check does not apply; what was measured, and the numbers of a figure."""

    passed: bool | None
    said: str
    p_value: float | None = None
    figure: dict[str, Any] | None = None


def sure(p: float) -> float:
    """A p-value; what is not a number comes from noise that is none.

    >>> sure(2.0), sure(float("nan"))
    (1.0, 0.0)
    """
    return min(1.0, float(p)) if p >= 0 else 0.0


def upper_bound(count: int, n: int, level: float) -> float:
    """Clopper and Pearson's upper bound on a probability."""
    return 1.0 if count == n else float(beta.isf(level, count + 1, n - count))
