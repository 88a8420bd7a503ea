"""What is left of a sweep and how long it may take; loads no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.experiments.files import MODEL
from ars.experiments.starting import shared_folder, start_of
from ars.experiments.sweep import Cell, Sweep
from ars.experiments.sweep_state import Left, what_is_left
from ars.experiments.sweep_times import Times, recorded_figure, rough_figures


@dataclass(frozen=True)
class Row:
    """A cell with what is left of it, or why it cannot be gone on with; seconds is None where unknown."""

    cell: Cell
    left: Left | None
    problem: str
    seconds: float | None

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
        """What all of the rest may take; None where that of a cell is unknown."""
        known = [row.seconds for row in self.rows if row.seconds is not None]
        return sum(known) if len(known) == len(self.rows) else None


def make_plan(sweep: Sweep, runs: Path) -> Plan:
    """Look at the folders of all cells."""
    found = [(cell, *_look(cell, runs / cell.name)) for cell in sweep.cells]
    recorded = [recorded_figure(cell, runs / cell.name) for cell, left, _ in found if left is not None and left.done]
    times = Times(recorded, rough_figures(sweep.rough))
    needed = _starts_needed(found, runs)
    rows = (
        Row(cell, left, problem, times.estimate(cell, left, with_start=cell.name in needed) if left else None)
        for cell, left, problem in found
    )
    return Plan(tuple(rows), times)


def _starts_needed(found: Sequence[tuple[Cell, Left | None, str]], runs: Path) -> set[str]:
    """The cells that train a start, by name: the first of those that share one which is not there yet."""
    first: dict[Path, str] = {}
    for cell, left, _ in found:
        start = start_of(cell.recipe)
        if start is not None and left is not None and left.epochs == cell.recipe.train.epochs:
            first.setdefault(shared_folder(runs, start), cell.name)
    return {name for folder, name in first.items() if not (folder / MODEL).exists()}


def _look(cell: Cell, folder: Path) -> tuple[Left | None, str]:
    try:
        return what_is_left(cell, folder), ""
    except (ValueError, OSError) as error:
        return None, str(error)
