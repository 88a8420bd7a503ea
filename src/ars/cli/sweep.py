"""ars sweep: train and certify every cell of a sweep file."""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.certify import certify_with_progress
from ars.cli.errors import describe_error, tell
from ars.cli.interrupt import end_if_asked, stoppable, terminable
from ars.cli.options import Subparsers, add_command, add_device, add_engine, add_places, add_plan, check_plan
from ars.cli.train import train_with_progress
from ars.cli.views import describe_forecast, duration
from ars.cli.vote import sentence, vote_with_progress
from ars.recipes.recipe import Recipe
from ars.runs.lock import BusyError, locked
from ars.runs.paths import MODEL
from ars.runs.shards import SHARD_SIZE
from ars.workflows.processes import one_process
from ars.workflows.sweeps.file import Cell, Sweep, read_sweep
from ars.workflows.sweeps.plan import Budget, Plan, Recorded, Row, Times, make_plan
from ars.workflows.sweeps.state import cell_request, cell_settings, remaining_work

if TYPE_CHECKING:
    import torch

    from ars.data.benchmark import Opener

TEACH = """\
Run every cell of a sweep file, one after another: train, round the weights, certify, vote on the whole test set, save
a few masks. Finished work is skipped, so the same command resumes after Ctrl-C, a crash or a lost machine, also on
another machine that has the folder. A cell that fails is reported, and the sweep continues with the next.

  ars sweep digits --out runs/digits
  ars sweep headline --out runs/fast --plan           what is left, timed here; --price, --on
  ars sweep headline --out runs/fast --engine ray     cells side by side, one GPU each
  ars sweep headline --out runs/fast --minutes 25     stop in time, resume later
  ars pack headline --runs runs/fast --out results    keep the results in a small folder
  ars sweep seeds --out runs/fast --packed results    skip cells that are packed there

Several of these commands may share a folder: each takes the next cell that no other is working on.
docs/sweep.md describes sweep files, docs/scale.md many GPUs.
"""
NOTICE = "ars: the workers save what they have and end; press Ctrl-C again to stop at once"
WAIT_SECONDS = 5.0  # between two attempts at a cell that another process works on


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "sweep", run, summary="train and certify many cells", teach=TEACH, resumable=True)
    parser.add_argument("sweep", type=Path, metavar="SWEEP", help="a sweep file")
    parser.add_argument("--out", type=Path, required=True, metavar="RUNS", help="where the run folders go")
    parser.add_argument("--packed", type=Path, metavar="RESULTS", help="also skip cells that 'ars pack' has put there")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after this time, in a state to resume from")
    add_engine(parser, ray="cells side by side on a Ray cluster, one GPU or core each")
    add_plan(parser)
    add_places(parser, recipe="the sweep's recipes")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Run the cells; 1 if some failed."""
    one_process("ars sweep")
    check_plan(options)
    sweep, budget = read_sweep(options.sweep), Budget(options.minutes)
    moved = dict(option.removeprefix("--data.").split("=", maxsplit=1) for option in options.overrides)
    for cell in sweep.cells:
        cell.recipe.data.at(moved)  # refuses a place that its kind does not have
    if options.packed is not None and not options.packed.is_dir():
        raise ValueError(f"there is no folder {options.packed}; give --packed a folder that 'ars pack' has written")
    plan = make_plan(sweep, options.out, options.packed)
    tell(show(sweep, plan))
    if not plan.left:
        return 0
    if options.plan:
        print_forecast(sweep, plan, options, moved)
        return 0
    from ars.data.benchmark import BenchmarkCache
    from ars.recipes.build import check_noise

    for row in plan.rows:
        if not row.done:
            check_noise(row.cell.recipe)  # report a missing package once, not for every cell
    work = Work(options.out, options.device, budget, plan.times, BenchmarkCache(moved))
    cells = [row.cell for row in plan.rows if not row.done]
    with terminable():
        try:
            on_ray = options.engine == "ray"
            failed = _run_on_ray(work, cells, options.gpus_per_worker) if on_ray else _run_here(work, cells)
        finally:
            plan = make_plan(sweep, options.out, options.packed)
            tell(show(sweep, plan))
    if plan.left and budget.over():
        tell(f"{options.minutes:g} min are over; run the same command again to resume")
    if failed:
        tell(f"ars: {failed} of {len(plan.rows)} cells failed; the errors are above", file=sys.stderr)
    return 1 if failed else 0


def _run_here(work: "Work", cells: Sequence[Cell]) -> int:
    """One cell after another, first those that no other process is working on; returns how many failed."""
    from ars.workflows.hardware import choose_device

    choose_device(work.device)  # report a wrong name once, likewise, and a file in the way
    work.runs.mkdir(parents=True, exist_ok=True)
    left, failed, told = list(cells), 0, False
    while left:
        busy = []
        for cell in left:
            if work.budget.watch()():
                return failed
            done = work.make(cell)
            busy += [cell] if done is None else []
            failed += done is False
        if len(busy) == len(left):
            if not told:
                note(f"waiting for other processes, which work on {', '.join(cell.name for cell in busy)}")
            told = True
            time.sleep(WAIT_SECONDS)
        left = busy
    return failed


def _run_on_ray(work: "Work", cells: Sequence[Cell], gpus_per_worker: float) -> int:
    """Cells side by side, as many as the cluster has room for; returns how many failed."""
    from ars.workflows.ray import open_cluster
    from ars.workflows.sweeps.ray import run_side_by_side

    with stoppable(NOTICE) as stop, open_cluster(work.device, gpus_per_worker, show_output=True) as cluster:
        there = replace(work, runs=work.runs.resolve(), device=cluster.device_name)
        return run_side_by_side(
            cluster, cells, there.runs, train=there.train, make=there.make_in_turn, tell=note, stop=stop
        )


def print_forecast(sweep: Sweep, plan: Plan, options: argparse.Namespace, moved: Mapping[str, str]) -> None:
    """Time each kind of cell that is left and none of which is finished, and print what the rest will take."""
    from ars.data.benchmark import BenchmarkCache
    from ars.workflows.forecast import Forecast, most_draws, name_of
    from ars.workflows.hardware import choose_device

    device = choose_device(options.device)
    timed = time_cells(plan, device, BenchmarkCache(moved))
    rows = [row for row in make_plan(sweep, options.out, options.packed, timed).rows if not row.done]
    for row in rows:
        tell(f"  {describe(row)}")
    draws = sum(row.left.images * most_draws(row.cell.recipe.certify) for row in rows if row.left)
    tell(f"on {name_of(device)}: at most {draws:,} draws for certification")
    if any(row.seconds is None for row in rows):
        tell("the time of some cells is unknown; see above")
        return
    forecast = Forecast(tuple(row.seconds or 0.0 for row in rows))
    unit = "GPU" if device.type == "cuda" else "worker"
    tell(describe_forecast(forecast, options.on, unit=unit, price=options.price))


def time_cells(plan: Plan, device: "torch.device", open_data: "Opener") -> list[Recorded]:
    """Time each kind of cell that is left and none of which is finished; say why one cannot be timed."""
    from ars.workflows.forecast import time_cell

    timed: list[Recorded] = []
    for cell in (row.cell for row in plan.rows if row.left and not row.done):
        method, schedule = cell.recipe.method, cell.recipe.certify.schedule
        known = [*plan.times.recorded, *timed]
        if any(times.methods == (method,) and (times.k, times.schedule) == (cell.k, schedule) for times in known):
            continue
        note(f"timing {cell.name}; Ctrl-C ends it")
        try:
            epoch, image, vote = time_cell(
                cell.recipe, vote=cell.vote, images=SHARD_SIZE, device=device, open_data=open_data
            )
        except (ValueError, ArithmeticError, OSError) as error:
            note(f"{cell.name} cannot be timed: {describe_error(error)}")
        else:
            timed.append(Recorded((method,), cell.k, epoch=epoch, image=image, vote=vote, schedule=schedule))
    return timed


def note(line: str) -> None:
    """Say one line about the work."""
    tell(f"ars: {line}", file=sys.stderr)


def show(sweep: Sweep, plan: Plan) -> str:
    """What is left, cell by cell."""
    total = f", {about(plan.seconds)}" if plan.left else ""
    if total and plan.seconds is not None and sweep.rough_on and not plan.times.recorded:
        total += f" on {sweep.rough_on}"  # no times of this machine are recorded yet
    lines = [f"{sweep.name}: {len(plan.rows)} cells, {len(plan.rows) - plan.left} done, {plan.left} left{total}"]
    return "\n".join([*lines, *(f"  {describe(row)}" for row in plan.rows)])


def describe(row: Row) -> str:
    """A cell, what is left to do, and about how long that takes."""
    if row.left is None:
        return f"{row.cell.name}: {row.problem}"
    added = ", packed" if row.packed else "" if row.done else f", {about(row.seconds)}"
    return f"{row.cell.name}: {row.left}{added}"


def about(seconds: float | None) -> str:
    """An estimated time.

    >>> about(75), about(None)
    ('about 1 min 15 s', 'time unknown')
    """
    return "time unknown" if seconds is None else f"about {duration(seconds)}"


@dataclass(frozen=True)
class Work:
    """What a process, here or on another machine, needs to make cells."""

    runs: Path
    device: str
    budget: Budget
    times: Times
    open_data: "Opener"

    def make(self, cell: Cell) -> bool | None:
        """Do what is left of a cell while there is time; False if that fails, None if another process works on it."""
        return self._attempt(cell.name, partial(self._make, cell))

    def make_in_turn(self, cell: Cell) -> bool:
        """The same, after the other process."""
        while (done := self.make(cell)) is None and not self.budget.over():
            time.sleep(WAIT_SECONDS)
        return done is not False

    def train(self, recipe: Recipe, folder: Path) -> None:
        """Train a start that cells share; if that fails, or another process does it, they will say so."""
        train = partial(
            train_with_progress, recipe, folder, self.device, enough=self.budget.watch(), starts=self.runs,
            open_data=self.open_data,
        )  # fmt: skip
        if not self.budget.watch()():
            self._attempt(folder.name, train)

    def _make(self, cell: Cell) -> None:
        folder = self.runs / cell.name
        with locked(self.runs, "sweep", of=cell.name):
            left = remaining_work(cell, folder)
            if not left.done:  # another process may have made it meanwhile
                row = Row(cell, left, seconds=self.times.estimate(cell, left))
                tell(f"making {describe(row)}")
                make_cell(cell, folder, self.device, self.budget, self.times, self.open_data)

    def _attempt(self, name: str, do: Callable[[], None]) -> bool | None:
        try:
            do()
        except BusyError:
            return None
        except KeyboardInterrupt:
            if not self.budget.spent:
                raise
        except Exception as error:  # the other cells may still succeed
            told = isinstance(error, ValueError | ArithmeticError | OSError | ModuleNotFoundError)
            why = f": {describe_error(error)}" if told else f" failed:\n{traceback.format_exc()}"
            tell(f"ars: {name}{why}", file=sys.stderr)
            return False
        return True


def make_cell(cell: Cell, folder: Path, device_name: str, budget: Budget, times: Times, open_data: "Opener") -> None:
    """Do what is left of a cell, step by step."""
    left = remaining_work(cell, folder)
    from ars.workflows.hardware import choose_device
    from ars.workflows.pictures import draw_pipeline_of
    from ars.workflows.stages import save_average_masks
    from ars.workflows.weights import round_weights

    if left.train:
        train_with_progress(
            cell.recipe, folder, device_name, enough=budget.watch(), starts=folder.parent, open_data=open_data
        )
        end_if_asked()
    if left.rounding:
        round_weights(folder / MODEL)
    if left.images:
        shard = SHARD_SIZE * (times.of(cell, "image") or 0.0)
        request = cell_request(cell, folder, cell_settings(cell, folder), open_data)
        certify_with_progress(request, device_name, enough=budget.watch(shard), over=budget.over)
        end_if_asked()
    settings = cell_settings(cell, folder)
    if left.vote:
        enough = budget.watch()
        tally = vote_with_progress(folder, settings, device_name, draws=cell.vote, enough=enough, open_data=open_data)
        tell(sentence(tally))
        end_if_asked()
    if left.masks:
        device = choose_device(device_name)
        draw_pipeline_of(cell_request(cell, folder, settings, open_data), device=device)
        save_average_masks(folder, settings, device=device, open_data=open_data)
