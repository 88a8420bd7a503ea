"""What is left of a sweep and how long it may take; loads no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.certification.run_folder import CHECKPOINT, MODEL
from ars.experiments.recipe import Recipe
from ars.experiments.starting import begun_as_start, cell_folder, in_epochs_of, start_folder, starts_of
from ars.experiments.sweeps.file import Cell, Sweep
from ars.experiments.sweeps.state import Left, epochs_done, is_packed, what_is_left
from ars.experiments.sweeps.times import Times, recorded_figure, rough_figures

Found = tuple[Cell, Left | None, str]
"""A cell, what is left of it, and why it cannot be gone on with where that is unknown."""
DONE = Left(train=False, epochs=0, rounding=False, images=0, vote=False, masks=False)


@dataclass(frozen=True)
class Row:
    """A cell with what is left of it, or why it cannot be gone on with; seconds is None where unknown."""

    cell: Cell
    left: Left | None
    problem: str
    seconds: float | None
    packed: bool = False
    """Whether it is done because it lies packed, and not in the folder of the runs."""

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


def make_plan(sweep: Sweep, runs: Path, results: Path | None = None) -> Plan:
    """Look at the folders of all cells, and at what lies packed in results of those that are not done."""
    if runs.exists() and not runs.is_dir():
        raise ValueError(f"{runs} is a file, where the folder of the runs was expected; name another")
    made = [(cell, *_look(cell, runs / cell.name)) for cell in sweep.cells]
    recorded = [recorded_figure(cell, runs / cell.name) for cell, left, _ in made if left is not None and left.done]
    found = [_look_packed(it, results / sweep.name / it[0].name) for it in made] if results else made
    times = Times(recorded, rough_figures(sweep.rough))
    first = _starts_left(found, runs)
    rows = (
        Row(cell, left, problem, times.estimate(cell, left, first.get(cell.name, 0.0)) if left else None, left is DONE)
        for cell, left, problem in found
    )
    return Plan(tuple(rows), times)


def _starts_left(found: Sequence[Found], runs: Path) -> dict[str, float]:
    """What starts add to cells, in epochs, or take from them; the first of those that share one trains it.

    What was begun as the start of others, or is by then that of a cell before, is not trained again as a cell.
    """
    there: set[str] = set()  # the trainings that will have been done, or seen to, before a cell
    epochs: dict[str, float] = {}
    for cell, left, _ in found:
        recipe, folder = cell.recipe, runs / cell.name
        if left is None or not left.train or "size" not in recipe.data.options:
            continue
        if folder == cell_folder(runs, recipe):
            if recipe.identity in there:
                epochs[cell.name] = -left.epochs
                continue
            there.add(recipe.identity)
        begun = begun_as_start(recipe, folder)
        if begun is not None:
            epochs[cell.name] = -_done(begun, recipe)
        if ((begun or folder) / CHECKPOINT).exists() or ((begun or folder) / MODEL).exists():
            continue
        for start in starts_of(recipe):
            where = start_folder(runs, start)
            if start.identity in there or (where / MODEL).exists():
                break
            there.add(start.identity)
            left_of_it = start.train.epochs - _done(where, start)
            epochs[cell.name] = epochs.get(cell.name, 0.0) + in_epochs_of(recipe, start, left_of_it)
            if (where / CHECKPOINT).exists():
                break
    return epochs


def _done(folder: Path, recipe: Recipe) -> int:
    """How many epochs of a training need not be done again."""
    return recipe.train.epochs if (folder / MODEL).exists() else epochs_done(folder)


def _look(cell: Cell, folder: Path) -> tuple[Left | None, str]:
    try:
        return what_is_left(cell, folder), ""
    except (ValueError, OSError) as error:
        return None, str(error)


def _look_packed(found: Found, folder: Path) -> Found:
    """What was found of a cell, or that nothing is left of it where it lies packed in a folder."""
    cell, left, _ = found
    if left is None or left.done:
        return found
    try:
        return (cell, DONE, "") if is_packed(cell, folder) else found
    except (ValueError, OSError) as error:
        return cell, None, str(error)
