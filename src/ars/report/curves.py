"""Certified accuracy against the radius, with the spread over the seeds."""

import textwrap
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ars.report.figures import MUTED, Picture, style
from ars.report.groups import Group
from ars.report.measures import Outcomes, norm_name, standard_error, unit_scale
from ars.report.table import Block
from ars.theory import Norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = tuple[str, str | tuple[int, tuple[float, ...]]]

# Colours after Okabe and Ito, told apart by colour-blind readers; the dashes serve print in grey.
LINES: dict[str, Line] = {
    "adaptive": ("#0072B2", "-"),
    "cohen": ("#4b5563", (0, (5, 1.6))),
    "static_mask": ("#D97706", (0, (7, 1.6, 1.5, 1.6))),
    "unicr": ("#009E73", (0, (2.5, 1.5))),
    "sukenik": ("#B5558F", (0, (1, 1.2))),
}
# For models that the paper does not have, in the order of their rows.
OWN_LINES: tuple[Line, ...] = (
    ("black", "-"),
    ("#56B4E9", (0, (5, 1.6))),
    ("#C44E00", (0, (7, 1.6, 1.5, 1.6))),
    ("#7A6A00", (0, (2.5, 1.5))),
    ("#8C6BB1", (0, (1, 1.2))),
)
POINTS = 121
LETTERS = 76
"""How many letters of a caption there is room for above a panel."""


def draw_curves(sections: Sequence[Sequence[Block]], *, origin: str = "") -> Picture:
    """A row a section, a panel a block; step curves that never overstate between the drawn points.

    origin is added to the caption of every panel.
    """
    from matplotlib.figure import Figure

    columns = max(len(blocks) for blocks in sections)
    with style():
        figure = Figure(figsize=(5.7 * columns, 4.1 * len(sections)), layout="constrained")
        grid = figure.subplots(len(sections), columns, squeeze=False)
        for panels, blocks in zip(grid, sections, strict=True):
            limit = largest_radius(blocks)
            for panel, block in zip(panels, blocks, strict=False):
                _draw_panel(panel, block, limit, origin)
            for unused in panels[len(blocks) :]:
                unused.set_visible(False)
        shown = (f"{block.section.heading}, {block.caption}" for blocks in sections for block in blocks)
        return Picture(figure, f"Certified accuracy against the radius: {'; '.join(shown)}")


def accuracy_curves(group: Sequence[Outcomes], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """Certified accuracy of every seed at every radius, [seeds, radii]."""
    return np.stack([_curve(answers, radii) for answers in group])


def _curve(answers: Outcomes, radii: NDArray[np.float64]) -> NDArray[np.float64]:
    certified = np.sort(answers.radius[answers.correct])
    below: NDArray[np.intp] = np.searchsorted(certified, radii, side="left")
    return (len(certified) - below) / len(answers)


def largest_radius(blocks: Sequence[Block]) -> float:
    """Where the axis ends: a little beyond the largest radius that is certified right."""
    answers = [answer for block in blocks for row in block.rows for answer in row.group.outcomes(block.bound)]
    largest = max(float(answer.radius[answer.correct].max(initial=0.0)) for answer in answers)
    return 1.04 * largest or 1 / unit_scale(blocks[0].norm)


def _draw_panel(panel: "Axes", block: Block, limit: float, origin: str) -> None:
    radii = np.linspace(0, limit, POINTS)
    scale = unit_scale(block.norm)
    own = dict.fromkeys(row.group.method for row in block.rows if row.group.method not in LINES)
    of_method = LINES | dict(zip(own, cycle(OWN_LINES), strict=False))
    several = any(len(row.group.runs) > 1 for row in block.rows)
    errors = []
    for row in block.rows:
        answers = row.group.outcomes(block.bound)
        curves = accuracy_curves(answers, radii)
        errors += [standard_error(at, len(one)) for one, curve in zip(answers, curves, strict=True) for at in curve]
        label = block.label(row) + (_seeds(len(curves)) if several else "")
        _draw_group(panel, row.group, of_method[row.group.method], label, radii * scale, 100 * curves)
    panel.set_xlim(0, limit * scale)
    panel.set_ylim(0, 100)
    panel.set_yticks(range(0, 101, 20))
    panel.set_axisbelow(True)
    panel.set_xlabel(_radius_label(block.norm))
    panel.set_ylabel("certified accuracy (%)")
    unlike = "" if block.section.same_images else "not the same images"
    about = "; ".join(part for part in (block.caption, block.images, origin, unlike) if part)
    lines = [*textwrap.wrap(about, LETTERS), *textwrap.wrap(uncertainty("bands", max(errors), several), LETTERS)]
    pad = 10 + 11 * len(lines)
    panel.set_title(block.section.heading, loc="left", fontsize=11, fontweight="bold", pad=pad)
    panel.text(0, 1.025, "\n".join(lines), transform=panel.transAxes, fontsize=9, color=MUTED)
    panel.legend(frameon=False, fontsize=9, handlelength=2.8)


def uncertainty(bars: str, error: float, several: bool) -> str:
    """What bars or bands are, where there are several seeds, and what they do not hold: the choice of test images."""
    images = f"the choice of images leaves a standard error of up to {100 * error:.1f} points"
    return f"{bars}: one standard deviation over the seeds; besides, {images}" if several else images


def _seeds(count: int) -> str:
    return f" ({count} seed{'s' if count > 1 else ''})"


def _draw_group(
    panel: "Axes", group: Group, line: Line, label: str, x: NDArray[np.float64], curves: NDArray[np.float64]
) -> None:
    colour, dashes = line
    if group.variant:  # of one method: its colour, a line of its own
        dashes = ("-", "--", "-.", ":")[(group.variant - 1) % 4]
    mean = curves.mean(axis=0)
    if len(curves) > 1:
        spread = curves.std(axis=0, ddof=1)
        low, high = (mean - spread).clip(0, 100), (mean + spread).clip(0, 100)
        panel.fill_between(x, low, high, step="pre", color=colour, alpha=0.16, linewidth=0)
    panel.plot(x, mean, drawstyle="steps-pre", color=colour, linestyle=dashes, linewidth=1.9, label=label)


def _radius_label(norm: Norm) -> str:
    unit = "in 1/255 of the pixel range" if norm == "linf" else "pixel range 1"
    return f"{norm_name(norm)} radius ({unit})"
