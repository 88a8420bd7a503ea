"""Where masks lie: the part of a mask within the object's outline, and the noise that it leaves."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ars.certification.run_folder import MASK_DRAWS
from ars.report.archive.entries import Entry
from ars.report.archive.masks import Masks, load_masks
from ars.report.archive.notes import BACKGROUNDS
from ars.report.archive.settings import WHERE, where
from ars.report.archive.sheet import Column, Line, Number, Sheet, Value, percent, scaled
from ars.report.measures import Spread, rounded

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
        Column("within the outline (%)", "inside"),
        Column("least to most", "inside_range", number=False),
        Column("the outline's area (%)", "area"),
        Column("noise left", "noise_left"),
        Column("from least to most", "noise_left_range", number=False),
        Column("images", "images", number=False),
    )
    told = [ABOUT, SHARE, NOISE]
    told += [BACKGROUNDS] if any(entry.first.kind == "cifar_backgrounds" for entry, _ in masked) else []
    lines = tuple(Line(_values(entry, seeds), entry) for entry, seeds in masked)
    files = tuple(cell.masks for entry, _ in masked for cell in entry.cells if cell.masks)
    return Sheet("masks", "Where masks lie, and the noise they leave", columns, lines, tuple(told), files=files)


def _values(entry: Entry, seeds: Sequence[Masks]) -> tuple[Value, ...]:
    within, noise = _spread(seeds, inside), _spread(seeds, noise_left)
    areas = [tall * wide / entry.first.k**2 for *_, tall, wide in seeds[0].boxes] if seeds[0].boxes is not None else []
    return (
        *where(entry),
        percent(within),
        _range(seeds, inside, scale=100, decimals=0),
        Number(100 * float(np.mean(areas))) if areas else None,
        scaled(noise, decimals=2),
        _range(seeds, noise_left, scale=1, decimals=2),
        len(seeds[0].masks),
    )


def _spread(seeds: Sequence[Masks], measure: Callable[[Masks], NDArray[np.float64]]) -> Spread:
    values = [measure(masks) for masks in seeds]
    return Spread(tuple(float(np.mean(value)) for value in values if value.size))


def _range(
    seeds: Sequence[Masks], measure: Callable[[Masks], NDArray[np.float64]], *, scale: int, decimals: int
) -> str | None:
    values = np.concatenate([measure(masks) for masks in seeds])
    ends = [rounded(scale * float(end), decimals) for end in (values.min(), values.max())] if values.size else []
    return " to ".join(dict.fromkeys(ends)) or None
