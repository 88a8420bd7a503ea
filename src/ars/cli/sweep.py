"""ars sweep: train and certify every cell of a sweep file."""

import argparse
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.certify import certify_with_progress
from ars.cli.errors import describe_error, tell
from ars.cli.interrupt import end_if_asked, terminable
from ars.cli.options import Subparsers, add_command, add_device, add_places
from ars.cli.train import train_with_progress
from ars.cli.views import duration
from ars.cli.vote import sentence, vote_with_progress
from ars.runs.lock import locked
from ars.runs.paths import MODEL
from ars.runs.shards import SHARD_SIZE
from ars.workflows.processes import one_process
from ars.workflows.sweeps.file import Cell, Sweep, read_sweep
from ars.workflows.sweeps.plan import Budget, Plan, Row, Times, make_plan
from ars.workflows.sweeps.state import cell_request, cell_settings, remaining_work

if TYPE_CHECKING:
    from ars.data.benchmark import Opener

TEACH = """\
Run every cell of a sweep file, one after another: train, round the weights, certify, vote on the whole test set, save
a few masks. Finished work is skipped, so the same command resumes after Ctrl-C, a crash or a lost machine, also on
another machine that has the folder. A cell that fails is reported, and the sweep continues with the next.

  ars sweep recipes/sweeps/digits.yaml --out runs/digits
  ars sweep recipes/sweeps/headline.yaml --out runs/fast --plan           what is left, and about how long it takes
  ars sweep recipes/sweeps/headline.yaml --out runs/fast --minutes 25     stop in time, resume later
  ars pack recipes/sweeps/headline.yaml --runs runs/fast --out results    keep the results in a small folder
  ars sweep recipes/sweeps/seeds.yaml --out runs/fast --packed results    skip cells that are packed there

docs/sweep.md describes sweep files.
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "sweep", run, summary="train and certify many cells", teach=TEACH, resumable=True)
    parser.add_argument("sweep", type=Path, metavar="SWEEP", help="a sweep file")
    parser.add_argument("--out", type=Path, required=True, metavar="RUNS", help="where the run folders go")
    parser.add_argument("--packed", type=Path, metavar="RESULTS", help="also skip cells that 'ars pack' has put there")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after this time, in a state to resume from")
    parser.add_argument("--plan", action="store_true", help="print what is left and exit")
    add_places(parser, recipe="the sweep's recipes")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Run the cells; 1 if some failed."""
    one_process("ars sweep")
    sweep, budget = read_sweep(options.sweep), Budget(options.minutes)
    moved = dict(option.removeprefix("--data.").split("=", maxsplit=1) for option in options.overrides)
    for cell in sweep.cells:
        cell.recipe.data.at(moved)  # refuses a place that its kind does not have
    if options.packed is not None and not options.packed.is_dir():
        raise ValueError(f"there is no folder {options.packed}; give --packed a folder that 'ars pack' has written")
    plan = make_plan(sweep, options.out, options.packed)
    tell(show(sweep, plan))
    if options.plan or not plan.left:
        return 0
    from ars.data.benchmark import BenchmarkCache
    from ars.recipes.build import check_noise
    from ars.workflows.hardware import choose_device

    choose_device(options.device)  # report a wrong name once, not for every cell
    for row in plan.rows:
        if not row.done:
            check_noise(row.cell.recipe)  # likewise a missing package
    failed, open_data = 0, BenchmarkCache(moved)
    with locked(options.out, "sweep"), terminable():
        try:
            for number, row in enumerate(plan.rows, start=1):
                if not row.done and not budget.watch()():
                    tell(f"[{number}/{len(plan.rows)}] {describe(row)}")
                    folder = options.out / row.cell.name
                    failed += not _attempt(row.cell, folder, options.device, budget, plan.times, open_data)
        finally:
            tell(show(sweep, make_plan(sweep, options.out, options.packed)))
    if budget.spent:
        tell(f"{options.minutes:g} min are over; run the same command again to resume")
    if failed:
        tell(f"ars: {failed} of {len(plan.rows)} cells failed; the errors are above", file=sys.stderr)
    return 1 if failed else 0


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


def _attempt(cell: Cell, folder: Path, device: str, budget: Budget, times: Times, open_data: "Opener") -> bool:
    """Run a cell while there is time; prints why and returns False if that fails."""
    try:
        make_cell(cell, folder, device, budget, times, open_data)
    except KeyboardInterrupt:
        if not budget.spent:
            raise
    except Exception as error:  # the other cells may still succeed
        told = isinstance(error, ValueError | ArithmeticError | OSError | ModuleNotFoundError)
        why = f": {describe_error(error)}" if told else f" failed:\n{traceback.format_exc()}"
        tell(f"ars: {cell.name}{why}", file=sys.stderr)
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
