"""Charts for the page: coordinates only; the template draws them in the reader's own colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ars.report.archive.by_size import Trend
from ars.report.curves import accuracy_curves, largest_radius
from ars.report.table import Block

WIDTH, HEIGHT = 400, 280
LEFT, RIGHT, TOP, BOTTOM = 40, 392, 10, 238
STEPS = 176


@dataclass(frozen=True)
class Series:
    """A method's line, the band of one standard deviation around it, or points with bars."""

    method: str
    label: str
    line: str
    band: str = ""
    points: tuple[tuple[int, int, int, int], ...] = ()
    """x, y and the ends of the bar."""
    hollow: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Chart:
    """Lines in a frame; ticks are places with texts."""

    series: tuple[Series, ...]
    x_ticks: tuple[tuple[int, str], ...]
    y_ticks: tuple[tuple[int, str], ...]
    x_label: str


def curve_chart(block: Block) -> Chart:
    """Certified accuracy against the radius; archived cells are certified for Linf."""
    limit = largest_radius([block])
    radii = np.linspace(0, limit, STEPS + 1)
    x = np.round(np.linspace(LEFT, RIGHT, STEPS + 1)).astype(int)
    series = []
    for row in block.rows:
        curves = accuracy_curves(row.group.outcomes(block.bound), radii)
        mean = curves.mean(axis=0)
        spread = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros_like(mean)
        band = _band(x, _heights(mean - spread), _heights(mean + spread)) if len(curves) > 1 else ""
        line = f"M{x[0]} {_heights(mean)[0]}{_steps(x, _heights(mean))}"
        series.append(Series(row.group.method, block.label(row), line, band))
    return Chart(tuple(series), _x_ticks(limit * 255), _percent_ticks(), "ℓ∞ radius (in 1/255 of the pixel range)")


def trend_chart(trends: Sequence[Trend]) -> Chart:
    """Accuracy against the side of the image, on an axis that holds what is shown and little else."""
    sizes = sorted({k for trend in trends for k in trend.ours})
    axis = _around([end for trend in trends for end in _ends(trend)])
    span = max(sizes[-1] - sizes[0], 1)
    at = {k: round(LEFT + 16 + (RIGHT - LEFT - 32) * (k - sizes[0]) / span) for k in sizes}
    series = []
    for number, trend in enumerate(trends):
        aside = round(5 * (number - (len(trends) - 1) / 2))
        points = {}
        for k, spread in sorted(trend.ours.items()):
            mean, std = spread.mean, spread.std or 0.0
            y, low, high = _heights(np.array([mean, mean - std, mean + std]), axis).tolist()
            points[k] = (at[k] + aside, y, low, high)
        line = "".join("M" + "L".join(f"{points[k][0]} {points[k][1]}" for k in sizes) for sizes in trend.alike)
        paper = [(at[k] + aside, int(_heights(np.array([value / 100]), axis)[0])) for k, value in trend.paper]
        series.append(Series(trend.method, trend.label, line, points=tuple(points.values()), hollow=tuple(paper)))
    ticks = tuple((x, str(k)) for k, x in at.items())
    return Chart(tuple(series), ticks, _percent_ticks(axis), "side of the image, k (pixels)")


def _ends(trend: Trend) -> list[float]:
    """Everything that a trend shows, in percent."""
    bars = ((100 * spread.mean, 100 * (spread.std or 0.0)) for spread in trend.ours.values())
    return [*(mean + side * std for mean, std in bars for side in (-1, 1)), *(accuracy for _, accuracy in trend.paper)]


def _around(values: Sequence[float]) -> tuple[int, int]:
    """The tens of percent around some values."""
    low, high = 10 * math.floor((min(values) - 1) / 10), 10 * math.ceil((max(values) + 1) / 10)
    return max(low, 0), min(high, 100)


def _heights(fractions: NDArray[np.float64], axis: tuple[int, int] = (0, 100)) -> NDArray[np.int64]:
    low, high = axis
    shares = ((100 * fractions - low) / (high - low)).clip(0, 1)
    heights: NDArray[np.int64] = np.round(BOTTOM - (BOTTOM - TOP) * shares).astype(np.int64)
    return heights


def _steps(x: NDArray[np.int64], y: NDArray[np.int64]) -> str:
    """The step curve from the first point on, that holds each value up to its radius."""
    turns = [number for number in range(1, len(x)) if y[number] != y[number - 1]]
    return "".join(f"H{x[number - 1]}V{y[number]}" for number in turns) + f"H{x[-1]}"


def _band(x: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> str:
    turns = [number for number in range(len(x) - 1, 0, -1) if low[number] != low[number - 1]]
    back = "".join(f"H{x[number - 1]}V{low[number - 1]}" for number in turns) + f"H{x[0]}"
    return f"M{x[0]} {high[0]}{_steps(x, high)}V{low[-1]}{back}Z"


def _x_ticks(limit: float) -> tuple[tuple[int, str], ...]:
    from matplotlib.ticker import MaxNLocator

    ticks = [float(tick) for tick in MaxNLocator(5).tick_values(0, limit) if 0 <= tick <= limit]
    return tuple((round(LEFT + (RIGHT - LEFT) * tick / limit), f"{tick:g}") for tick in ticks)


def _percent_ticks(axis: tuple[int, int] = (0, 100)) -> tuple[tuple[int, str], ...]:
    low, high = axis
    step = 20 if high - low > 50 else 10 if high - low > 20 else 5
    values = range(low, high + 1, step)
    return tuple((round(BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)), str(value)) for value in values)
