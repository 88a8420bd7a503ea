"""Certified accuracy against the radius, with the spread over the seeds."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ars.report.grouping import Group
from ars.report.measures import Outcomes, norm_name, outcomes_of_log, unit_scale
from ars.report.style import MUTED, Look, Picture, looks_of, style
from ars.report.table import Block
from ars.runs.vote_count import standard_error
from ars.theory import Norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 121
LETTERS = 76
"""How many letters of a caption there is room for above a panel."""
PANEL = (5.7, 4.1)
"""Inches of a panel with its caption; without one it is smaller, for a page that has the caption as text."""
BARE = (4.7, 3.5)
MARGINS = {"left": 0.13, "right": 0.985, "bottom": 0.14, "top": 0.97}
"""Of a bare panel; constrained layout would take as long as drawing."""


def draw_curves(
    sections: Sequence[Sequence[Block]],
    *,
    origin: str = "",
    looks: Mapping[str, Look] | None = None,
    bare: bool = False,
) -> Picture:
    """A row per section, a panel per block; step curves that never overstate between the drawn points.

    origin is added to the caption of every panel; a bare panel has no caption.
    """
    from matplotlib.figure import Figure

    columns = max(len(blocks) for blocks in sections)
    width, height = BARE if bare else PANEL
    shown = [block for blocks in sections for block in blocks]
    looks = looks or looks_of(row.group.method for block in shown for row in block.rows)
    with style():
        figure = Figure(figsize=(width * columns, height * len(sections)), layout=None if bare else "constrained")
        grid = figure.subplots(len(sections), columns, squeeze=False)
        if bare:
            figure.subplots_adjust(**MARGINS)
        for panels, blocks in zip(grid, sections, strict=True):
            limit = largest_radius(blocks)
            for panel, block in zip(panels, blocks, strict=False):
                errors = _draw_panel(panel, block, limit, looks)
                if not bare:
                    _write_caption(panel, block, max(errors), origin)
            for unused in panels[len(blocks) :]:
                unused.set_visible(False)
        titles = (f"{block.section.heading}, {block.caption}" for block in shown)
        return Picture(figure, f"Certified accuracy against the radius: {'; '.join(titles)}")


def accuracy_curves(group: Sequence[Outcomes], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """Certified accuracy of every seed at every radius, [seeds, radii]."""
    certified = [np.sort(answers.radius[answers.correct]) for answers in group]
    fewer = (len(one) - np.searchsorted(one, radii, side="left") for one in certified)
    return np.stack([count / len(answers) for count, answers in zip(fewer, group, strict=True)])


def largest_radius(blocks: Sequence[Block]) -> float:
    """Where the axis ends: a little beyond the largest radius that is certified right."""
    answers = [answer for block in blocks for row in block.rows for answer in row.group.outcomes(block.bound)]
    answers += [outcomes_of_log(log) for block in blocks for log in block.logs]
    largest = max(float(answer.radius[answer.correct].max(initial=0.0)) for answer in answers)
    return 1.04 * largest or 1 / unit_scale(blocks[0].norm)


def _draw_panel(panel: "Axes", block: Block, limit: float, looks: Mapping[str, Look]) -> list[float]:
    """Draw all rows of a block; the standard errors that the choice of images leaves at every point."""
    radii = np.linspace(0, limit, POINTS)
    scale = unit_scale(block.norm)
    several = _several(block)
    errors = []
    for row in block.rows:
        curves = accuracy_curves(row.group.outcomes(block.bound), radii)
        counts = [len(run.records) for run in row.group.runs]
        errors += [standard_error(at, images) for images, curve in zip(counts, curves, strict=True) for at in curve]
        seeds = f" ({len(curves)} seed{'s' if len(curves) > 1 else ''})" if several else ""
        label = block.label(row) + seeds
        _draw_group(panel, row.group, looks[row.group.method], label, radii * scale, 100 * curves)
    for number, log in enumerate(block.logs):
        [curve] = accuracy_curves([outcomes_of_log(log)], radii)
        dashes = (0, (1, 1 + number))
        label = f"{log.name} (a log, not checked)"
        panel.plot(radii * scale, 100 * curve, drawstyle="steps-pre", color=MUTED, linestyle=dashes, label=label)
    set_axes(panel, block.norm, limit, "certified accuracy (%)")
    return errors


def set_axes(panel: "Axes", norm: Norm, limit: float, name: str) -> None:
    """Axes from radius 0 to the limit and from 0 to 100%, and the legend."""
    panel.set_xlim(0, limit * unit_scale(norm))
    panel.set_ylim(0, 100)
    panel.set_yticks(range(0, 101, 20))
    panel.set_axisbelow(True)
    unit = "in 1/255 of the pixel range" if norm == "linf" else "pixel range 1"
    panel.set_xlabel(f"{norm_name(norm)} radius ({unit})")
    panel.set_ylabel(name)
    panel.legend(frameon=False, fontsize=9, handlelength=2.8)


def _write_caption(panel: "Axes", block: Block, error: float, origin: str) -> None:
    unlike = "" if block.section.same_images else "not the same images"
    about = "; ".join(part for part in (block.caption, block.images, origin, unlike) if part)
    told = uncertainty("bands", error, _several(block))
    lines = [*textwrap.wrap(about, LETTERS), *textwrap.wrap(told, LETTERS)]
    pad = 10 + 11 * len(lines)
    panel.set_title(block.section.heading, loc="left", fontsize=11, fontweight="bold", pad=pad)
    panel.text(0, 1.025, "\n".join(lines), transform=panel.transAxes, fontsize=9, color=MUTED)


def _several(block: Block) -> bool:
    return any(len(row.group.runs) > 1 for row in block.rows)


def uncertainty(bars: str, error: float, several: bool) -> str:
    """What bars or bands are, where there are several seeds, and what they do not hold: the choice of test images."""
    images = f"the choice of images leaves a standard error of up to {100 * error:.1f} points"
    return f"{bars}: one standard deviation over the seeds; besides, {images}" if several else images


def _draw_group(
    panel: "Axes", group: Group, look: Look, label: str, x: NDArray[np.float64], curves: NDArray[np.float64]
) -> None:
    colour, dashes = look
    if group.variant:  # several trainings of one method share its colour
        dashes = ("-", "--", "-.", ":")[(group.variant - 1) % 4]
    mean = curves.mean(axis=0)
    if len(curves) > 1:
        spread = curves.std(axis=0, ddof=1)
        low, high = (mean - spread).clip(0, 100), (mean + spread).clip(0, 100)
        panel.fill_between(x, low, high, step="pre", color=colour, alpha=0.16, linewidth=0)
    panel.plot(x, mean, drawstyle="steps-pre", color=colour, linestyle=dashes, linewidth=1.9, label=label)
