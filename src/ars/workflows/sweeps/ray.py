"""A sweep on a Ray cluster: its cells are tasks side by side, and wait for the starts that they share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ars.recipes.recipe import Recipe
from ars.recipes.start_sizes import begun_as_start, cell_folder, start_folder, start_of
from ars.runs.paths import CHECKPOINT, MODEL
from ars.workflows.ray import POLL_SECONDS, RETRIES, Cluster, RayError
from ars.workflows.sweeps.file import Cell

SAVE_SECONDS = 120.0  # that interrupted workers get to save what they have


def run_side_by_side(
    cluster: Cluster,
    cells: Sequence[Cell],
    runs: Path,
    *,
    train: Callable[[Recipe, Path], None],
    make: Callable[[Cell], bool],
    tell: Callable[[str], None],
    stop: Callable[[], bool],
) -> int:
    """Make all cells; returns how many failed. After a stop, the workers save what they have.

    train and make run in workers. Each start is trained once, before the cells that need it. A task whose worker is
    lost is run again, and resumes from what is in its folder.
    """
    tasks = _submit(cluster, cells, runs, train, make)
    failed, left = 0, dict(tasks)
    while left and not stop():
        for task in cluster.ray.wait(list(left), timeout=POLL_SECONDS)[0]:
            name = left.pop(task).name
            try:
                done = cluster.result(task)
            except RayError as error:
                done = False
                tell(f"{name}: {error}")
            failed += not done
            tell(f"{len(tasks) - len(left)} of {len(tasks)} cells: {name} {'has ended' if done else 'failed'}")
    if left:
        for task in left:
            cluster.ray.cancel(task)  # a KeyboardInterrupt in the worker
        cluster.ray.wait(list(left), num_returns=len(left), timeout=SAVE_SECONDS)
        raise KeyboardInterrupt
    return failed


def _submit(
    cluster: Cluster,
    cells: Sequence[Cell],
    runs: Path,
    train: Callable[[Recipe, Path], None],
    make: Callable[[Cell], bool],
) -> dict[Any, Cell]:
    """The tasks of all cells, each after the training of its start; a cell may itself be the start of others."""
    work, options = cluster.ray.remote(_work), {**cluster.options, "max_retries": RETRIES}
    own = {cell.recipe.identity: runs / cell.name for cell in cells if _is_start_folder(cell, runs)}
    trainings: dict[str, Any] = {}

    def training(recipe: Recipe, folder: Path) -> list[Any]:
        """The task, if one is needed, that trains what comes before a training in this folder."""
        start = start_of(recipe)
        begun = begun_as_start(recipe, folder) or folder
        if start is None or (begun / CHECKPOINT).exists() or (begun / MODEL).exists():
            return []
        if start.identity not in trainings:
            place = own.get(start.identity) or start_folder(runs, start)
            if (place / MODEL).exists():
                return []
            after = training(start, place)
            named = work.options(name=place.name, **options)
            trainings[start.identity] = named.remote(Path.cwd(), train, (start, place), *after)
        return [trainings[start.identity]]

    before = [training(cell.recipe, runs / cell.name) for cell in cells]
    after = [[trainings[cell.recipe.identity]] if cell.recipe.identity in trainings else [] for cell in cells]
    return {
        work.options(name=cell.name, **options).remote(Path.cwd(), make, (cell,), *first, *then): cell
        for cell, first, then in zip(cells, before, after, strict=True)
    }


def _is_start_folder(cell: Cell, runs: Path) -> bool:
    """Whether other cells look for this training in the cell's folder."""
    return "size" in cell.recipe.data.options and cell_folder(runs, cell.recipe) == runs / cell.name


def _work(here: Path, call: Callable[..., Any], arguments: tuple[Any, ...], *after: object) -> Any:
    """Runs in a worker, in the driver's folder, when the tasks that come before have ended."""
    os.chdir(here)
    return call(*arguments)
