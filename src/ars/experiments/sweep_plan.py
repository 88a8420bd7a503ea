"""What is left of a sweep and how long it may take; loads no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.experiments.files import MODEL
from ars.experiments.starting import in_epochs_of, shared_folder, start_folder, start_of, starts_of, trained_as_start
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
    first = _starts_left(found, runs)
    rows = (
        Row(cell, left, problem, times.estimate(cell, left, first.get(cell.name, 0.0)) if left else None)
        for cell, left, problem in found
    )
    return Plan(tuple(rows), times)


def _starts_left(found: Sequence[tuple[Cell, Left | None, str]], runs: Path) -> dict[str, float]:
    """What starts will add to cells, in epochs; the first of those that share one trains it.

    A cell that is itself the start of one before it is trained with that, and takes none of its own epochs.
    """
    there: set[Path] = set()
    epochs: dict[str, float] = {}
    for cell, left, _ in found:
        recipe = cell.recipe
        if left is None or left.epochs < recipe.train.epochs or start_of(recipe) is None:
            continue
        own = shared_folder(runs, recipe)
        if own in there or trained_as_start(recipe, runs):
            epochs[cell.name] = -left.epochs
            continue
        there.add(own)
        for start in starts_of(recipe):
            if shared_folder(runs, start) in there or (start_folder(runs, start) / MODEL).exists():
                break
            there.add(shared_folder(runs, start))
            epochs[cell.name] = epochs.get(cell.name, 0.0) + in_epochs_of(recipe, start)
    return epochs


def _look(cell: Cell, folder: Path) -> tuple[Left | None, str]:
    try:
        return what_is_left(cell, folder), ""
    except (ValueError, OSError) as error:
        return None, str(error)
