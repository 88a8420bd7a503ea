"""Numerical composition of any mix of symmetric trade-off functions; the result is always pessimistic.

Each part becomes a privacy-loss distribution on a grid, with a profile above the part's own ("connect the dots",
Doroshenko et al. 2022). The distributions are convolved, and the profile of the result gives the trade-off function.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ars.theory.rounding import ERROR
from ars.theory.tradeoff import Profiled, check_level

Floats = NDArray[np.float64]

# Grid step relative to the typical loss of a part: the variance of the loss is overstated by a sixth of its square.
FINEST, COARSEST = 1e-3, 1e-2
GRID_POINTS = 2**18
# A part's losses beyond this delta count as certain identification, as does the mass cut off by truncating a power.
LOSS_TAIL = 1e-18
POWER_TAIL = 1e-15
# Added to delta: the error of an FFT, an error of 2e-14 in the delta of each part (the largest found was 7e-15, for
# generalised normal noise with beta near 2), and one rounding for each term of the sums.
FFT_ERROR, PART_ERROR, SUM_ERROR = 1e-12, 2e-14, 2.0**-52
# Enough values of epsilon; any choice of them gives a valid lower bound.
LINES = 20_000
LARGEST = 600.0  # eps; larger losses leave less than e^-600 of a probability


@dataclass(frozen=True)
class Losses:
    """P(loss = (lower + k) step) = mass[k], P(loss = infinity) = infinite."""

    lower: int
    mass: Floats
    infinite: float


@dataclass(frozen=True)
class Numeric:
    """The composition of (part, count) pairs: f >= max over eps of {0, 1 - delta - e^eps a, e^-eps (1 - delta - a)}.

    delta(eps) of the whole bounds both directions because every part is symmetric, and composition keeps that.
    """

    parts: tuple[tuple[Profiled, int], ...]

    def __call__(self, alpha: float, /) -> float:
        """Evaluate f(alpha), rounded down."""
        check_level(alpha)
        epsilon, delta = self.profile
        kept = 1 - delta
        steep = kept - np.exp(epsilon) * alpha * (1 + ERROR)
        flat = np.exp(-epsilon) * (kept - alpha)
        return max(0.0, float(np.max(steep)), float(np.max(flat)) * (1 - ERROR))

    @cached_property
    def profile(self) -> tuple[Floats, Floats]:
        """(epsilon, delta): an increasing grid of eps >= 0 and an upper bound on delta at each.

        Losses beyond any grid say nothing: delta = 1 at eps = 0, so that f = 0.
        """
        parts = [(part, count) for part, count in self.parts if _typical_loss(part) > 0]
        if not parts:
            return np.zeros(1), np.zeros(1)
        step = _grid_step(parts)
        if any(_grid_end(part, step) is None for part, _ in parts):
            return np.zeros(1), np.ones(1)
        whole = _convolve([_power(discretise(part, step), count) for part, count in parts])
        losses = np.float64(step) * (whole.lower + np.arange(len(whole.mass)))
        # sums over losses > eps, at the losses themselves, where the bound has its corners
        above = np.cumsum(whole.mass[::-1])[::-1]
        below = np.cumsum((whole.mass * np.exp(-np.maximum(losses, 0)))[::-1])[::-1]
        error = FFT_ERROR + PART_ERROR * sum(count for _, count in parts) + SUM_ERROR * len(losses)
        wanted = np.flatnonzero((losses >= 0) & (losses < LARGEST))
        if not len(wanted):
            return np.zeros(1), np.ones(1)
        wanted = wanted[:: max(1, len(wanted) // LINES)]
        epsilon = losses[wanted]
        delta = whole.infinite + above[wanted] - np.exp(epsilon) * below[wanted] + error
        return epsilon, np.clip(delta, 0.0, 1.0)


def numeric(parts: Iterable[Profiled | Numeric]) -> Numeric:
    """Collect the parts, including those of earlier compositions, with their counts."""
    counts: Counter[Profiled] = Counter()
    for part in parts:
        for inner, count in part.parts if isinstance(part, Numeric) else ((part, 1),):
            counts[inner] += count
    return Numeric(tuple(counts.items()))


def discretise(part: Profiled, step: float) -> Losses:
    """The smallest loss distribution on the grid whose profile is nowhere below the part's; symmetric like the part.

    With delta_k at eps = k step, the mass at k > 0 is
    (delta_{k-1} - delta_k) / (1 - e^-step) - (delta_k - delta_{k+1}) / (e^step - 1), and P(-loss) = e^-loss P(loss).
    """
    size = _grid_end(part, step)
    if size is None:
        raise ValueError(f"the privacy loss of {part} is too large to be put on a grid of step {step}")
    delta = np.minimum.accumulate(part.delta(np.float64(step) * np.arange(size + 1)))
    fall = -np.diff(delta)
    positive = np.maximum(fall / -math.expm1(-step) - np.append(fall[1:], 0.0) / math.expm1(step), 0.0)
    negative = positive * np.exp(-step * np.arange(1, size + 1))
    zero = max(0.0, 1 - delta[0] - 2 * fall[0] / math.expm1(step))
    return Losses(-size, np.concatenate([negative[::-1], [zero], positive]), float(delta[-1]))


def _typical_loss(part: Profiled) -> float:
    """The standard deviation of the loss of a Gaussian with the same total variation, if that is small."""
    return math.sqrt(2 * math.pi) * float(part.delta(np.zeros(1))[0])


def _grid_step(parts: list[tuple[Profiled, int]]) -> float:
    count = sum(count for _, count in parts)
    variance = sum(count * _typical_loss(part) ** 2 for part, count in parts)
    relative = min(max(FINEST, 20 * math.sqrt(count) / GRID_POINTS), COARSEST)
    return relative * math.sqrt(variance / count)


def _grid_end(part: Profiled, step: float) -> int | None:
    """The smallest number of steps, to a factor 1.1, after which delta is at most LOSS_TAIL; None if there is none."""
    ends = np.unique(np.ceil(1.1 ** np.arange(1, 200)))
    small = part.delta(np.float64(step) * ends) <= LOSS_TAIL
    return int(ends[small.argmax()]) if small.any() else None


def convolution_power(mass: Floats, count: int, tail: float) -> tuple[int, Floats]:
    """(start, the mass of the sum of count independent draws from start on); at most tail of it is cut off."""
    from dp_accounting.pld.common import self_convolve  # has compiled parts and is needed only here

    place = np.arange(len(mass))
    mean = place @ mass / mass.sum()
    spread = math.sqrt((place - mean) ** 2 @ mass / mass.sum() * count)
    # the Chernoff bounds that truncate the tails use multiples of 1/length: padding makes these fine enough
    padded = np.pad(mass, (0, max(0, math.ceil(spread) - len(mass))))
    start, power = self_convolve(padded, count, tail)
    return start, np.maximum(power, 0.0)


def _power(losses: Losses, count: int) -> Losses:
    """The loss of count independent repetitions."""
    if count == 1:
        return losses
    start, mass = convolution_power(losses.mass, count, POWER_TAIL)
    infinite = -math.expm1(count * math.log1p(-losses.infinite)) + POWER_TAIL
    return Losses(losses.lower * count + start, mass, infinite)


def _convolve(parts: list[Losses]) -> Losses:
    """The total loss of independent parts."""
    from scipy.signal import fftconvolve  # slow to import and needed only here

    whole = parts[0]
    for part in parts[1:]:
        mass = np.maximum(fftconvolve(whole.mass, part.mass), 0.0)
        whole = Losses(whole.lower + part.lower, mass, whole.infinite + part.infinite)
    return whole
