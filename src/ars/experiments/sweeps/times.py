"""How long cells may take: as finished cells of their side took, else as the sweep file's rough figures say.

These are scaled by how much longer finished cells took than theirs. Else it is what other sides or, at the last, other
methods took. Loads no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from ars.certification.run_folder import MAIN, records_folder
from ars.certification.schedule import Schedule
from ars.certification.shards import merge
from ars.experiments.starting import epochs_in_all
from ars.experiments.sweeps.file import Cell, Rough
from ars.experiments.sweeps.state import Left
from ars.experiments.timing import train_seconds
from ars.report.tally import read_tally

What = Literal["epoch", "image", "vote"]


@dataclass(frozen=True)
class Figure:
    """What a method took at a side k: seconds an epoch, a certified image, a vote; None where unknown.

    Images of another schedule take another time; a rough figure has none, it holds for its sweep.
    """

    method: str
    k: int | None
    epoch: float | None
    image: float | None
    vote: float | None
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Times:
    """Figures that were recorded, and rough ones for what was not."""

    recorded: Sequence[Figure]
    rough: Sequence[Figure]

    def of(self, cell: Cell, what: What) -> float | None:
        """Seconds that an epoch, an image or the vote of a cell may take."""
        schedule = cell.recipe.certify.schedule
        recorded = [figure for figure in self.recorded if what != "image" or figure.schedule == schedule]
        method, side = cell.recipe.method, cell.k
        if any(
            figure.method == method and figure.k == side and getattr(figure, what) is not None for figure in recorded
        ):
            return _seconds(method, side, what, recorded)
        rough = _seconds(method, side, what, self.rough)
        if rough is not None:
            return rough * self._slower(what, recorded)
        of_others = [replace(figure, method=method) for figure in recorded]
        return _seconds(method, side, what, recorded) or _seconds(method, side, what, of_others)

    def _slower(self, what: What, recorded: Sequence[Figure]) -> float:
        """How many times longer than stated things took on this machine, in the middle of what was recorded."""
        took = [(getattr(figure, what), _seconds(figure.method, figure.k, what, self.rough)) for figure in recorded]
        ratios = [seconds / stated for seconds, stated in took if seconds and stated]
        return median(ratios) if ratios else 1.0

    def estimate(self, cell: Cell, left: Left, start: float = 0.0) -> float | None:
        """Seconds that the rest of a cell and so many epochs of a start may take; None where a figure is missing."""
        counts: dict[What, float] = {"epoch": left.epochs + start, "image": left.images, "vote": int(left.vote)}
        parts = [(count, self.of(cell, what)) for what, count in counts.items() if count]
        known = [count * seconds for count, seconds in parts if seconds is not None]
        return sum(known) if len(known) == len(parts) else None


def rough_figures(rough: Sequence[Rough]) -> list[Figure]:
    """The figures that a sweep file states."""
    return [Figure(method, it.k, it.epoch, it.image, it.vote) for it in rough for method in it.methods]


def recorded_figure(cell: Cell, folder: Path) -> Figure:
    """What a finished cell took."""
    records = merge(records_folder(folder, MAIN), partial=True).records
    seconds, tally = train_seconds(folder), read_tally(folder)
    return Figure(
        cell.recipe.method,
        cell.k,
        epoch=None if seconds is None else seconds / epochs_in_all(cell.recipe),
        image=fmean(record.seconds for record in records),
        vote=tally.seconds if tally else None,
        schedule=cell.recipe.certify.schedule,
    )


def _seconds(method: str, side: int | None, what: What, figures: Sequence[Figure]) -> float | None:
    """The mean of a method's figures at a side, else at the nearest one, scaled by k^2."""
    of_method = [figure for figure in figures if figure.method == method]
    known = [(figure.k or side, getattr(figure, what)) for figure in of_method if getattr(figure, what) is not None]
    if not known:
        return None
    if side is None:
        return fmean(seconds for _, seconds in known)
    nearest = min((k or side for k, _ in known), key=lambda k: abs(k - side))
    return fmean(seconds for k, seconds in known if k == nearest) * (side / nearest) ** 2
