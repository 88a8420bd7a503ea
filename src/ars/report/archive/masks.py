"""Masks with the outline of the object that was pasted; no pixels of any image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ars.certification.run_folder import MASKS
from ars.report.archive.cells import Cell
from ars.report.errors import ReportError
from ars.report.figures import INK, MUTED, Picture, style
from ars.report.groups import method_name

MOST = 8
OUTLINE: dict[str, Any] = {"fill": False, "edgecolor": "#D55E00", "linewidth": 1.6, "clip_on": False}


@dataclass(frozen=True)
class Masks:
    """The masks of a cell: bytes [n, k, k], 255 for the largest weight of each; these weights [n]; test images [n].

    Only ratios within a mask count: the noise grows with its norm.
    """

    cell: Cell
    masks: NDArray[np.uint8]
    largest: NDArray[np.float32]
    indices: NDArray[np.int64]
    boxes: NDArray[np.int64] | None
    """Top, left, height, width [n, 4]; None where nothing was pasted, or nobody knows where."""


def load_masks(cell: Cell) -> Masks:
    """Read masks.npz of a cell that has one."""
    path = cell.path / MASKS
    try:
        with np.load(path, allow_pickle=False) as arrays:
            masks, indices = arrays["masks"], arrays["indices"].astype(np.int64)
            boxes = arrays["box"].astype(np.int64) if "box" in arrays.files else None
            largest = arrays["largest"].astype(np.float32) if "largest" in arrays.files else None
        n = len(masks)
        if n == 0 or masks.dtype != np.uint8 or masks.shape != (n, cell.k, cell.k):
            raise ValueError(f"masks of shape {masks.shape} and type {masks.dtype}")
        if largest is None:
            masks, largest = _stretch(masks)
        if indices.shape != (n,) or largest.shape != (n,) or (boxes is not None and boxes.shape != (n, 4)):
            raise ValueError(f"not an index, a largest weight and a box for each of {n} masks")
    except (KeyError, OSError, ValueError, EOFError, BadZipFile) as error:
        raise ReportError(f"{path} does not hold masks ({error}); copy the cell again") from error
    return Masks(cell, masks, largest, indices, boxes)


def _stretch(masks: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Masks of an earlier version, with 255 for 1."""
    most = masks.max(axis=(1, 2))
    stretched = np.rint(255 * (masks / np.maximum(most, 1).reshape(-1, 1, 1))).astype(np.uint8)
    return stretched, (most / 255).astype(np.float32)


def draw_masks(rows: Sequence[Masks]) -> Picture:
    """A row a cell, a column an image; cells of one noise level and different k as in the paper's Figure 4."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    columns = min(MOST, max(len(row.masks) for row in rows))
    first = rows[0].cell
    width, height = 0.75 + 0.95 * columns, 0.62 + 1.15 * len(rows) + 0.05
    with style():
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(len(rows), columns, squeeze=False)
        figure.subplots_adjust(
            left=0.7 / width, right=1 - 0.05 / width, top=1 - 0.62 / height, bottom=0.2 / height,
            wspace=0.08, hspace=0.22,
        )  # fmt: skip
        title = f"{method_name(first.method)} masks, {first.benchmark}, σ = {first.sigma:g}"
        figure.text(0.05 / width, 1 - 0.24 / height, title, fontsize=11, fontweight="bold")
        about = "black hides (0), white is the mask's largest weight, given below"
        if any(row.boxes is not None for row in rows):
            about += "; orange: the object"
        if any(row.cell.inputs != row.cell.title for row in rows):
            about += "; not BG-20k"
        figure.text(0.05 / width, 1 - 0.45 / height, about, fontsize=9, color=MUTED)
        for panels, row in zip(grid, rows, strict=True):
            for panel in panels:
                panel.set_axis_off()
            for panel, mask in zip(panels, row.masks, strict=False):
                panel.imshow(mask, cmap="gray", vmin=0, vmax=255, interpolation="none")
            for panel, box in zip(panels, () if row.boxes is None else row.boxes, strict=False):
                top, left, tall, wide = box.tolist()
                panel.add_patch(Rectangle((left - 0.5, top - 0.5), wide, tall, **OUTLINE))
            panels[0].text(-0.1, 0.5, f"k = {row.cell.k}", transform=panels[0].transAxes, ha="right", va="center",
                           fontsize=10, color=INK)  # fmt: skip
            for panel, index, most in zip(panels, row.indices, row.largest, strict=False):
                panel.text(0.5, -0.06, f"{index}: {most:.2f}", transform=panel.transAxes, ha="center", va="top",
                           fontsize=8, color=MUTED)  # fmt: skip
        return Picture(figure)
