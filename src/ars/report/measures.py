"""What is measured on a run's records, as pure functions of arrays, and how it is written for a reader."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ars.certification.bounds import Bound
from ars.methods.registry import methods
from ars.runs.logs import ABSTAINS, Log
from ars.runs.records import Record, ReportError
from ars.runs.run import Run
from ars.theory import Norm
from ars.theory.rounding import truncate

COLUMNS = 4  # of round radii in a table
ROUNDING = 1e-15  # a few units in the last place
BOUND_NAMES: dict[Bound, str] = {"cohen": "Cohen et al.'s bound", "classes": "our class bounds"}


@dataclass(frozen=True)
class Outcomes:
    """The answers on n images under one bound: correct [n] bool, abstained [n] bool, radius [n] float64.

    Where only a grid of radii was decided, nothing is known of any other one.
    """

    correct: NDArray[np.bool_]
    abstained: NDArray[np.bool_]
    radius: NDArray[np.float64]
    grid: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.radius)

    @property
    def radii_of_correct(self) -> NDArray[np.float64]:
        """The certified radius where the answer is correct, 0 elsewhere [n]."""
        return np.where(self.correct, self.radius, 0.0)

    def decided(self, radius: float) -> float | None:
        """The radius where it was decided, or one of the grid that is equal but for rounding or hardly larger."""
        near = (own for own in self.grid if radius * (1 - ROUNDING) <= own <= radius * (1 + 1e-9))
        return next(near, None) if self.grid else radius

    def certified_accuracy(self, radius: float) -> float | None:
        """The fraction of images that are correct with a certified radius of at least ``radius``; None if undecided.

        At radius 0 it is the standard accuracy, abstentions counting as wrong.
        """
        decided = self.decided(radius)
        return None if decided is None else float(np.mean(self.correct & (self.radius >= decided)))

    @property
    def average_radius(self) -> float | None:
        """The mean over all images of the radius where the answer is correct and 0 elsewhere; None for a grid."""
        return None if self.grid else float(np.mean(self.radii_of_correct))

    @property
    def abstention_rate(self) -> float | None:
        """The fraction of images that are not certified even at radius 0; None if that was not decided."""
        return None if self.decided(0.0) is None else float(np.mean(self.abstained))


def outcomes(records: Sequence[Record], bound: Bound) -> Outcomes:
    """The answers under a bound: the candidate where it is certified, else an abstention, which is never correct."""
    grid = records[0].certificate.schedule.radii
    if any(bound not in record.certificate.radii for record in records):
        raise ReportError(f"these votes decided when to stop, so they are never bounded again, by {bound!r} or others")
    radius = np.array([record.certificate.radii[bound] for record in records], dtype=np.float64)
    candidate = np.array([record.certificate.candidate for record in records])
    truth = np.array([record.truth for record in records])
    # a grid may hold radius 0, at which a label is certified or not
    abstained = np.array([record.certificate.label is None for record in records]) if grid else ~(radius > 0)
    return Outcomes(correct=(candidate == truth) & ~abstained, abstained=abstained, radius=radius, grid=grid)


def outcomes_of_log(log: Log) -> Outcomes:
    """The answers of a log, as it states them."""
    right = [line.predicted == line.truth for line in log.lines]
    abstained = [line.predicted == ABSTAINS for line in log.lines]
    radius = np.array([line.radius for line in log.lines], dtype=np.float64)
    return Outcomes(np.array(right), np.array(abstained), radius)


@dataclass(frozen=True)
class Lead:
    """A mean difference and the standard error that the choice of test images leaves; None for a single image."""

    mean: float
    error: float | None

    def shown(self, scale: float = 1, decimals: int = 1) -> tuple[str, str]:
        """Both in another unit, rounded; an unknown error gives no text."""
        mean = rounded(scale * self.mean, decimals)
        return mean, "" if self.error is None else rounded(scale * self.error, decimals)

    def text(self, scale: float = 100, decimals: int = 1) -> str:
        """The mean with its error, "50.0 ± 8.0": fractions in points."""
        return " ± ".join(filter(None, self.shown(scale, decimals)))


def paired_lead(mine: NDArray[np.float64], theirs: NDArray[np.float64]) -> Lead:
    """The mean of mine - theirs, each [seeds, n] on the same n images, with the standard error that n images leave.

    Seeds are averaged image by image first: they share the images, which no further seed makes more of.

    >>> paired_lead(np.array([[1.0, 1.0, 0.0, 1.0]]), np.array([[0.0, 1.0, 0.0, 0.0]]))
    Lead(mean=0.5, error=0.28867513459481287)
    """
    apart = np.mean(mine, axis=0) - np.mean(theirs, axis=0)
    error = float(np.std(apart, ddof=1)) / math.sqrt(len(apart)) if len(apart) > 1 else None
    return Lead(float(np.mean(apart)), error)


@dataclass(frozen=True)
class Spread:
    """A measure on each seed of a group; no values where the certification did not decide it."""

    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, seeds: Iterable[float | None]) -> Self:
        """The values of all seeds; none where any seed has none."""
        values = tuple(seeds)
        found = tuple(value for value in values if value is not None)
        return cls(found if len(found) == len(values) else ())

    @property
    def mean(self) -> float:
        """The mean over the seeds; NaN where there is no value."""
        return math.fsum(self.values) / len(self.values) if self.values else math.nan

    @property
    def std(self) -> float | None:
        """The sample standard deviation over the seeds; None for a single seed."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def rounded(value: float, decimals: int = 1) -> str:
    """The nearest decimal, ties to even: 60.0 and 61.5 have the mean 60.75, which binary fractions miss by a little.

    >>> rounded(60.75), rounded(-0.04)
    ('60.8', '0.0')
    """
    return f"{Decimal(f'{value:.9f}'):z.{decimals}f}"


def unit_scale(norm: Norm) -> int:
    """How many display units a pixel range of 1 has: Linf radii are shown in 1/255, L2 radii as they are."""
    return 255 if norm == "linf" else 1


def unit_name(norm: Norm) -> str:
    """The display unit after a number, "/255" for Linf."""
    return "/255" if norm == "linf" else ""


def norm_name(norm: Norm) -> str:
    """The norm's sign for a reader."""
    return "ℓ∞" if norm == "linf" else "ℓ2"


def in_units(radius: float, norm: Norm) -> float:
    """The radius in display units; never above the exact product.

    >>> in_units(2 / 255, "linf") <= 2, in_units(0.5, "l2")
    (True, 0.5)
    """
    scaled = radius * unit_scale(norm)
    return math.nextafter(scaled, 0) if Fraction(scaled) > Fraction(radius) * unit_scale(norm) else scaled


def show_radius(radius: float, norm: Norm, decimals: int = 2) -> str:
    """The radius in display units with its decimals cut.

    >>> show_radius(0.01999, "linf"), show_radius(0.01999, "l2")
    ('5.09', '0.01')
    """
    # a product in float64 may stand for a shortest decimal above it
    return truncate(Fraction(radius) * 255 if norm == "linf" else radius, decimals)


def show_grid_radius(radius: float, norm: Norm, decimals: int = 2) -> str:
    """A radius that was asked for, as it was written: k/255 in Linf where float64 has no number nearer to it.

    What the theory certifies is rounded down by more than the two differ, so that k/255 itself is certified.

    >>> show_grid_radius(2 / 255, "linf"), show_grid_radius(0.00784, "linf"), show_grid_radius(0.29, "l2")
    ('2.00', '1.99', '0.29')
    """
    written = Fraction(round(Fraction(radius) * unit_scale(norm) * 10**decimals), 10**decimals)
    same = norm == "linf" and float(written / unit_scale(norm)) == radius
    return truncate(written, decimals) if same else show_radius(radius, norm, decimals)


def round_radii(largest: float) -> tuple[float, ...]:
    """The greatest power of two up to ``largest`` and its halves: few round numbers that cover the range.

    >>> round_radii(9.2)
    (1.0, 2.0, 4.0, 8.0)
    """
    if not largest > 0:
        return ()
    top = 2.0 ** math.floor(math.log2(largest))
    return tuple(top / 2**halvings for halvings in reversed(range(COLUMNS)))


def method_name(method: str) -> str:
    """The title of a recipe's method; a method that is not registered here keeps its own name."""
    known = methods().get(method)
    return known.title if known else method


def method_rank(method: str) -> tuple[int, str]:
    """Sorts methods in the order of the registry, unknown ones last."""
    known = list(methods())
    return (known.index(method) if method in known else len(known), method)


def heading_of(run: Run) -> str:
    """The benchmark of a run, the size of its images, the noise level and the norm of the certificates."""
    _, height, width = run.shape
    size = "" if f"k = {height}" in run.title else f", {height}×{width}"
    return f"{run.title}{size}, σ = {run.sigma:g}, {norm_name(run.settings.norm)}"
