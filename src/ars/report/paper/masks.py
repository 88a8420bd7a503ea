"""Where masks lie, as a figure and as a table: with the outline of the object, and without pixels of any image."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ars.report.measures import Spread, method_name, rounded
from ars.report.paper.cells import Cell
from ars.report.paper.entries import Entry, Lineup
from ars.report.paper.notes import BACKGROUNDS
from ars.report.paper.sheet import WHERE, Line, Sheet, Value, number, numbers, percent, scaled, where, words
from ars.report.style import INK, MUTED, Picture, data_uri, fit, style
from ars.report.views import Mask
from ars.runs.paths import MASK_DRAWS, MASKS
from ars.runs.records import ReportError
from ars.untrusted import read_arrays

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 8
FRAME: dict[str, Any] = {"fill": False, "edgecolor": "#9ca3af", "linewidth": 0.8, "clip_on": False}
OUTLINE: dict[str, Any] = {"fill": False, "edgecolor": "#D55E00", "linewidth": 1.6, "clip_on": False}

ABOUT = (
    f"Of the masks that are kept, which are averaged over {MASK_DRAWS} draws: mean over the images (standard deviation "
    "over the seeds), then the least to the most of any image and seed."
)
SHARE = (
    "Within the outline: the part of a mask's squared norm that lies on the object's box, beside the part of the area "
    "that the box has. A mask that is the same everywhere has as much of both."
)
NOISE = (
    "Noise left: the second look's noise where the mask is largest, as a part of what it would be without a mask: "
    "||w|| / (sqrt(d) max w). Only ratios within a mask count."
)


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
        arrays = read_arrays(path)
        masks, indices = arrays["masks"], arrays["indices"].astype(np.int64)
        boxes = arrays["box"].astype(np.int64) if "box" in arrays else None
        largest = arrays["largest"].astype(np.float32) if "largest" in arrays else None
        n = len(masks)
        if n == 0 or masks.dtype != np.uint8 or masks.shape != (n, cell.k, cell.k):
            raise ValueError(f"masks of shape {masks.shape} and type {masks.dtype}")
        if largest is None:  # masks of an earlier version have 255 for 1
            most = masks.max(axis=(1, 2))
            masks = np.rint(255 * (masks / np.maximum(most, 1).reshape(-1, 1, 1))).astype(np.uint8)
            largest = (most / 255).astype(np.float32)
        if indices.shape != (n,) or largest.shape != (n,) or (boxes is not None and boxes.shape != (n, 4)):
            raise ValueError(f"not an index, a largest weight and a box for each of {n} masks")
    except (KeyError, ValueError) as error:
        raise ReportError(f"{path} does not hold masks ({error}); copy the cell again") from error
    return Masks(cell, masks, largest, indices, boxes)


def draw_masks(rows: Sequence[tuple[Masks, Masks | None]]) -> Picture:
    """A row per cell, a column per image, and last the static mask, the same for all images, if there is one.

    Cells are of one noise level and different k, as in the paper's Figure 4.
    """
    from matplotlib.figure import Figure

    images = min(MOST, max(len(row.masks) for row, _ in rows))
    columns = images + any(static for _, static in rows)
    first = rows[0][0].cell
    width = 0.85 + 0.95 * columns
    about = fit(_about(rows), inches=width - 0.1, size=9)
    top = 0.47 + 0.16 * len(about)
    height = top + 1.3 * len(rows)
    with style():
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(len(rows), columns, squeeze=False)
        figure.subplots_adjust(
            left=0.8 / width, right=1 - 0.05 / width, top=1 - top / height, bottom=0.38 / height,
            wspace=0.08, hspace=0.42,
        )  # fmt: skip
        title = f"{method_name(first.method)} masks, {first.benchmark}, σ = {first.sigma:g}"
        figure.text(0.05 / width, 1 - 0.24 / height, title, fontsize=11, fontweight="bold")
        figure.text(0.05 / width, 1 - 0.32 / height, "\n".join(about), fontsize=9, color=MUTED, va="top")
        for panels, (row, static) in zip(grid, rows, strict=True):
            for panel in panels:
                panel.set_axis_off()
            for number, panel in enumerate(panels[: min(images, len(row.masks))]):
                _show(panel, row, number, f"image {row.indices[number]}")
            if static:
                _show(panels[-1], replace(static, boxes=None), 0, f"static, seed {static.cell.seed}")
            label = f"k = {row.cell.k}\nseed {row.cell.seed}"
            panels[0].text(-0.1, 0.5, label, transform=panels[0].transAxes, ha="right", va="center", fontsize=10,
                           color=INK)  # fmt: skip
        return Picture(figure, title)


def _about(rows: Sequence[tuple[Masks, Masks | None]]) -> str:
    """What is shown, and what its colours and lines mean."""
    about = f"averaged over {MASK_DRAWS} draws; black hides a pixel (0), white is the largest weight of each mask"
    about += "; orange: the object" if any(row.boxes is not None for row, _ in rows) else ""
    about += "; last: the static mask, one for all images" if any(static for _, static in rows) else ""
    return about + ("; not BG-20k" if any(row.cell.inputs != row.cell.title for row, _ in rows) else "")


def _show(panel: "Axes", masks: Masks, number: int, label: str) -> None:
    from matplotlib.patches import Rectangle

    panel.imshow(masks.masks[number], cmap="gray", vmin=0, vmax=255, interpolation="none")
    panel.add_patch(Rectangle((0, 0), 1, 1, transform=panel.transAxes, **FRAME))
    if masks.boxes is not None:
        top, left, tall, wide = masks.boxes[number].tolist()
        panel.add_patch(Rectangle((left - 0.5, top - 0.5), wide, tall, **OUTLINE))
    below = f"{label}\nwhite is {masks.largest[number]:.2f}"
    panel.text(0.5, -0.06, below, transform=panel.transAxes, ha="center", va="top", fontsize=8, color=MUTED)


def pictures(lineup: Lineup) -> tuple[tuple[Mask, ...], str]:
    """The masks of a lineup for the page, with what is to be said of them."""
    if lineup.masked is None:
        return (), ""
    masks = load_masks(lineup.masked)
    shown = [_mask(masks, number) for number in range(min(MOST, len(masks.masks)))]
    if lineup.static is not None:
        static = load_masks(lineup.static)  # the same for all images
        label = f"static mask\nwhite is {static.largest[0]:.2f}"
        shown.append(Mask(label, "The static mask", _source(static.masks[0])))
    outlined = "; the orange outline is where the object lies" if masks.boxes is not None else ""
    last = f"; the last, one for all images, of {lineup.static.name}" if lineup.static else ""
    hidden = "" if lineup.first.kind == "digits" else " The images themselves may not be shown here."
    note = (
        f"What the mask keeps, averaged over {MASK_DRAWS} draws: black hides a pixel (0), white is the largest weight "
        "of each mask (only ratios within a mask count: its noise grows with its norm)"
        f"{outlined}. Of {lineup.masked.name}{last}.{hidden}"
    )
    return tuple(shown), note


def _mask(masks: Masks, number: int) -> Mask:
    index = int(masks.indices[number])
    outline = ""
    if masks.boxes is not None:
        top, left, height, width = (f"{100 * int(side) / masks.cell.k:.4g}%" for side in masks.boxes[number])
        outline = f"top:{top};left:{left};height:{height};width:{width}"
    label = f"image {index}\nwhite is {masks.largest[number]:.2f}"
    return Mask(label, f"Mask of test image {index}", _source(masks.masks[number]), outline)


def _source(mask: NDArray[np.uint8]) -> str:
    from PIL import Image

    picture = io.BytesIO()
    Image.fromarray(mask).save(picture, format="PNG", optimize=True)
    return data_uri("image/png", picture.getvalue())


def inside(masks: Masks) -> NDArray[np.float64]:
    """The part of each mask's squared norm within its box [n]; empty where no boxes are known."""
    if masks.boxes is None:
        return np.empty(0)
    squares = np.square(masks.masks, dtype=np.float64)
    parts = [one[top : top + tall, left : left + wide].sum() / one.sum() if one.any() else 0.0
             for one, (top, left, tall, wide) in zip(squares, masks.boxes.tolist(), strict=True)]  # fmt: skip
    return np.array(parts)


def noise_left(masks: Masks) -> NDArray[np.float64]:
    """The noise where each mask is largest, relative to that of a mask that is the same everywhere [n]."""
    squares = np.square(masks.masks, dtype=np.float64)
    largest = masks.masks.max(axis=(1, 2)).astype(np.float64)
    noise: NDArray[np.float64] = np.sqrt(squares.mean(axis=(1, 2))) / np.maximum(largest, 1.0)
    return noise


def where_masks_lie(entries: Sequence[Entry]) -> Sheet:
    """A line for every entry with masks."""
    found = [(entry, [load_masks(cell) for cell in entry.cells if cell.masks]) for entry in entries]
    masked = [(entry, seeds) for entry, seeds in found if seeds]
    columns = (
        *WHERE,
        *numbers(inside="within the outline (%)"),
        *words(inside_range="least to most"),
        *numbers(area="the outline's area (%)", noise_left="noise left"),
        *words(noise_left_range="from least to most", images="images"),
    )
    told = [ABOUT, SHARE, NOISE]
    told += [BACKGROUNDS] if any(entry.first.kind == "cifar_backgrounds" for entry, _ in masked) else []
    lines = tuple(Line(_values(entry, seeds), entry) for entry, seeds in masked)
    files = tuple(cell.masks for entry, _ in masked for cell in entry.cells if cell.masks)
    return Sheet("masks", "Where masks lie, and the noise they leave", columns, lines, tuple(told), files=files)


def _values(entry: Entry, seeds: Sequence[Masks]) -> dict[str, Value]:
    (within, within_range), (noise, noise_range) = _spread(seeds, inside, 100, 0), _spread(seeds, noise_left, 1, 2)
    areas = [tall * wide / entry.first.k**2 for *_, tall, wide in seeds[0].boxes] if seeds[0].boxes is not None else []
    return {
        **where(entry),
        "inside": percent(within),
        "inside_range": within_range,
        "area": number(100 * float(np.mean(areas))) if areas else None,
        "noise_left": scaled(noise, decimals=2),
        "noise_left_range": noise_range,
        "images": len(seeds[0].masks),
    }


def _spread(
    seeds: Sequence[Masks], measure: Callable[[Masks], NDArray[np.float64]], scale: int, decimals: int
) -> tuple[Spread, str | None]:
    """A measure on each seed, and the least to the most of any image and seed in another unit."""
    each = [measure(masks) for masks in seeds]
    values = np.concatenate(each)
    ends = [rounded(scale * float(end), decimals) for end in (values.min(), values.max())] if values.size else []
    spread = Spread(tuple(float(np.mean(value)) for value in each if value.size))
    return spread, " to ".join(dict.fromkeys(ends)) or None
