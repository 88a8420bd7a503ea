"""The remaining work of a sweep, how long it takes, and what a time budget allows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from ars.certification.settings import Schedule
from ars.recipes.recipe import Recipe
from ars.recipes.start_sizes import begun_as_start, cell_folder, epochs_in_all, in_epochs_of, start_folder, starts_of
from ars.runs.paths import CHECKPOINT, MAIN, MODEL, records_folder
from ars.runs.run import train_seconds
from ars.runs.shards import merge
from ars.runs.vote_count import read_tally
from ars.workflows.sweeps.file import Cell, Rough, Sweep
from ars.workflows.sweeps.state import Left, epochs_done, is_packed, remaining_work

What = Literal["epoch", "image", "vote"]


@dataclass(frozen=True)
class Recorded(Rough):
    """The times of a finished cell; its time per image depends on the schedule."""

    schedule: Schedule | None = None


@dataclass(frozen=True)
class Times:
    """Recorded times, and the sweep file's estimates for what was not recorded."""

    recorded: Sequence[Recorded]
    rough: Sequence[Rough]

    def of(self, cell: Cell, what: What) -> float | None:
        """The expected seconds for an epoch, an image or the vote of a cell."""
        schedule = cell.recipe.certify.schedule
        recorded = [times for times in self.recorded if what != "image" or times.schedule == schedule]
        method, side = cell.recipe.method, cell.k
        here = [times for times in recorded if times.k == side]
        if _seconds(method, side, what, here) is not None:
            return _seconds(method, side, what, recorded)
        rough = _seconds(method, side, what, self.rough)
        if rough is not None:
            return rough * self._slower(what, recorded)
        of_others = [replace(times, methods=(method,)) for times in recorded]
        return _seconds(method, side, what, recorded) or _seconds(method, side, what, of_others)

    def _slower(self, what: What, recorded: Sequence[Recorded]) -> float:
        """The median ratio of recorded to estimated times on this machine."""
        pairs = [(getattr(times, what), _seconds(times.methods[0], times.k, what, self.rough)) for times in recorded]
        ratios = [seconds / estimate for seconds, estimate in pairs if seconds and estimate]
        return median(ratios) if ratios else 1.0

    def estimate(self, cell: Cell, left: Left, start: float = 0.0) -> float | None:
        """The expected seconds for the rest of a cell and so many epochs of a start; None if a time is missing."""
        counts: dict[What, float] = {"epoch": left.epochs + start, "image": left.images, "vote": int(left.vote)}
        parts = [(count, self.of(cell, what)) for what, count in counts.items() if count]
        known = [count * seconds for count, seconds in parts if seconds is not None]
        return sum(known) if len(known) == len(parts) else None


def recorded_times(cell: Cell, folder: Path) -> Recorded:
    """The times of a finished cell."""
    records = merge(records_folder(folder, MAIN), partial=True).records
    seconds, tally = train_seconds(folder), read_tally(folder)
    return Recorded(
        (cell.recipe.method,),
        cell.k,
        epoch=None if seconds is None else seconds / epochs_in_all(cell.recipe),
        image=fmean(record.seconds for record in records),
        vote=tally.seconds if tally else None,
        schedule=cell.recipe.certify.schedule,
    )


def _seconds(method: str, side: int | None, what: What, times: Sequence[Rough]) -> float | None:
    """The mean time of a method at a side, or at the nearest side, scaled by k^2."""
    of_method = [part for part in times if method in part.methods]
    known = [(part.k or side, getattr(part, what)) for part in of_method if getattr(part, what) is not None]
    if not known:
        return None
    if side is None:
        return fmean(seconds for _, seconds in known)
    nearest = min((k or side for k, _ in known), key=lambda k: abs(k - side))
    return fmean(seconds for k, seconds in known if k == nearest) * (side / nearest) ** 2


RESERVE = 2.0  # seconds for saving unfinished work


class Budget:
    """A number of minutes from now, also for processes on other machines; None means no limit."""

    def __init__(self, minutes: float | None = None, *, clock: Callable[[], float] = time.time) -> None:
        if minutes is not None and not minutes >= 0:
            raise ValueError(f"--minutes must be at least 0, got {minutes}")
        self._clock = clock
        self._deadline = None if minutes is None else clock() + 60 * minutes
        self.spent = False
        """Whether work was stopped because of the budget."""

    def watch(self, expected: float = 0.0) -> Callable[[], bool]:
        """A function to call between pieces of work: would another piece of the same length end too late?

        expected is the expected time of the first piece.
        """
        before = self._clock() - expected

        def enough() -> bool:
            nonlocal before
            now = self._clock()
            last, before = now - before, now
            if self._deadline is not None and now + last + RESERVE > self._deadline:
                self.spent = True
            return self.spent

        return enough

    def over(self) -> bool:
        """Whether time is up; called within a piece of work, which is then dropped."""
        if self._deadline is not None and self._clock() + RESERVE > self._deadline:
            self.spent = True
        return self.spent


@dataclass(frozen=True)
class Row:
    """A cell with what is left of it, or why it cannot be resumed; seconds is None if unknown."""

    cell: Cell
    left: Left | None
    problem: str = ""
    seconds: float | None = None
    packed: bool = False
    """Whether it is done because it is packed, not because its run is finished."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.left is not None and self.left.done


@dataclass(frozen=True)
class Plan:
    """All cells of a sweep in order."""

    rows: tuple[Row, ...]
    times: Times

    @property
    def left(self) -> int:
        """How many cells are not finished."""
        return sum(not row.done for row in self.rows)

    @property
    def seconds(self) -> float | None:
        """The expected time of all remaining work; None if that of a cell is unknown."""
        known = [row.seconds for row in self.rows if row.seconds is not None]
        return sum(known) if len(known) == len(self.rows) else None


def make_plan(sweep: Sweep, runs: Path, results: Path | None = None, timed: Sequence[Recorded] = ()) -> Plan:
    """Inspect the folders of all cells, and the packed results of those that are not done.

    timed are times that were measured on this machine for cells of which none is finished.
    """
    if runs.exists() and not runs.is_dir():
        raise ValueError(f"{runs} is a file, but the folder of the runs was expected; choose another")
    made = [_inspect(cell, runs / cell.name) for cell in sweep.cells]
    recorded = [recorded_times(row.cell, runs / row.cell.name) for row in made if row.done]
    times = Times([*recorded, *timed], sweep.rough)
    rows = [_inspect_packed(row, results / sweep.name / row.cell.name) for row in made] if results else made
    first = _starts_left(rows, runs)
    expected = (times.estimate(row.cell, row.left, first.get(row.cell.name, 0.0)) if row.left else None for row in rows)
    return Plan(tuple(replace(row, seconds=seconds) for row, seconds in zip(rows, expected, strict=True)), times)


def _starts_left(rows: Sequence[Row], runs: Path) -> dict[str, float]:
    """The epochs that starts add to each cell, or save; of cells that share a start, the first one trains it.

    A training that was begun as the start of others, or that an earlier cell needs as its start, is not repeated.
    """
    covered: set[str] = set()  # identities of the trainings that earlier cells will have done
    epochs: dict[str, float] = {}
    for row in rows:
        cell, left, recipe, folder = row.cell, row.left, row.cell.recipe, runs / row.cell.name
        if left is None or not left.train or "size" not in recipe.data.options:
            continue
        if folder == cell_folder(runs, recipe):
            if recipe.identity in covered:
                epochs[cell.name] = -left.epochs
                continue
            covered.add(recipe.identity)
        begun = begun_as_start(recipe, folder)
        if begun is not None:
            epochs[cell.name] = -_done(begun, recipe)
        if ((begun or folder) / CHECKPOINT).exists() or ((begun or folder) / MODEL).exists():
            continue
        for start in starts_of(recipe):
            of_start = start_folder(runs, start)
            if start.identity in covered or (of_start / MODEL).exists():
                break
            covered.add(start.identity)
            rest = start.train.epochs - _done(of_start, start)
            epochs[cell.name] = epochs.get(cell.name, 0.0) + in_epochs_of(recipe, start, rest)
            if (of_start / CHECKPOINT).exists():
                break
    return epochs


def _done(folder: Path, recipe: Recipe) -> int:
    """How many epochs of a training need not be done again."""
    return recipe.train.epochs if (folder / MODEL).exists() else epochs_done(folder)


def _inspect(cell: Cell, folder: Path) -> Row:
    try:
        return Row(cell, remaining_work(cell, folder))
    except (ValueError, OSError) as error:
        return Row(cell, None, str(error))


def _inspect_packed(row: Row, folder: Path) -> Row:
    """The same, with nothing left to do if the cell is packed in this folder."""
    if row.left is None or row.done:
        return row
    try:
        return Row(row.cell, Left(), packed=True) if is_packed(row.cell, folder) else row
    except (ValueError, OSError) as error:
        return Row(row.cell, None, str(error))
