"""ars sweep: train and certify every cell of a sweep file."""

import argparse
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from ars.certification.run_folder import MODEL
from ars.certification.shards import SHARD_SIZE
from ars.cli.certify import certify_with_progress
from ars.cli.errors import told
from ars.cli.interrupt import end_if_asked, terminable
from ars.cli.live import duration
from ars.cli.options import Subparsers, add_command, add_device, add_places, places_of
from ars.cli.train import train_with_progress
from ars.cli.vote import sentence, vote_with_progress
from ars.experiments.alone import alone_in
from ars.experiments.sweeps.budget import Budget
from ars.experiments.sweeps.file import Cell, Sweep, read_sweep
from ars.experiments.sweeps.plan import Plan, Row, make_plan
from ars.experiments.sweeps.state import cell_request, cell_settings, what_is_left
from ars.experiments.sweeps.times import Times
from ars.experiments.world import one_process

TEACH = """\
Make every cell of a sweep file, one after another: train, round the weights, certify, vote on the whole test set, save
a few masks. What is done is skipped, so that the same command goes on after Ctrl-C, a crash, a lost machine, or on
another machine that has the folder. A cell that fails is reported, and the others go on.

  ars sweep recipes/sweeps/digits.yaml --out runs/digits
  ars sweep recipes/sweeps/headline.yaml --out runs/fast --plan           what is left, and about how long
  ars sweep recipes/sweeps/headline.yaml --out runs/fast --minutes 25     end in time, go on later
  ars pack recipes/sweeps/headline.yaml --runs runs/fast --out results    what is worth keeping, small
  ars sweep recipes/sweeps/seeds.yaml --out runs/fast --packed results    where only that was kept

docs/sweep.md says what a sweep file holds.
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "sweep", run, summary="train and certify many cells", teach=TEACH, goes_on=True)
    parser.add_argument("sweep", type=Path, metavar="SWEEP", help="a sweep file")
    parser.add_argument("--out", type=Path, required=True, metavar="RUNS", help="where the run folders go")
    parser.add_argument("--packed", type=Path, metavar="RESULTS", help="skip what 'ars pack' has put there, too")
    parser.add_argument("--minutes", type=float, metavar="M", help="end after so long, in a state to go on from")
    parser.add_argument("--plan", action="store_true", help="say what is left and exit")
    add_places(parser, whose="the sweep's recipes")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Go through the cells; 1 where some failed."""
    one_process("ars sweep")
    sweep, budget = read_sweep(options.sweep), Budget(options.minutes)
    moved = places_of(options)
    for cell in sweep.cells:
        cell.recipe.data.at(moved)  # where its kind has no such place, it says so
    if options.packed is not None and not options.packed.is_dir():
        raise ValueError(f"there is no folder {options.packed}; --packed names one that 'ars pack' has written to")
    plan = make_plan(sweep, options.out, options.packed)
    print(show(sweep, plan), flush=True)
    if options.plan or not plan.left:
        return 0
    from ars.experiments.certifiable import check_noise
    from ars.experiments.device import choose_device

    choose_device(options.device)  # a wrong name is no cell's fault
    for row in plan.rows:
        if not row.done:
            check_noise(row.cell.recipe)  # nor is a package that is missing
    with alone_in(options.out, "sweep"), terminable():
        try:
            failed = _attempt_all(plan, options.out, options.device, budget, moved)
        finally:
            print(show(sweep, make_plan(sweep, options.out, options.packed)), flush=True)
    if budget.spent:
        print(f"{options.minutes:g} min are up; run the same command again to go on from here", flush=True)
    if failed:
        print(f"ars: {failed} of {len(plan.rows)} cells failed, as said above", file=sys.stderr)
    return 1 if failed else 0


def _attempt_all(plan: Plan, runs: Path, device: str, budget: Budget, moved: Mapping[str, str]) -> int:
    """Make cell after cell while there is time, on data that lies where moved says; how many failed."""
    from ars.experiments.keeping import keep_benchmark, moved_data

    failed = 0
    with keep_benchmark(), moved_data(moved):
        for number, row in enumerate(plan.rows, start=1):
            if not row.done and not budget.watch()():
                print(f"[{number}/{len(plan.rows)}] {describe(row)}", flush=True)
                failed += not _attempt(row.cell, runs / row.cell.name, device, budget, plan.times)
    return failed


def show(sweep: Sweep, plan: Plan) -> str:
    """What is left, cell by cell."""
    total = f", {about(plan.seconds)}" if plan.left else ""
    if total and plan.seconds is not None and sweep.rough_on and not plan.times.recorded:
        total += f" on {sweep.rough_on}"  # nothing is known of this machine yet
    lines = [f"{sweep.name}: {len(plan.rows)} cells, {len(plan.rows) - plan.left} done, {plan.left} left{total}"]
    return "\n".join([*lines, *(f"  {describe(row)}" for row in plan.rows)])


def describe(row: Row) -> str:
    """A cell, what is left of it, and about how long that takes."""
    if row.left is None:
        return f"{row.cell.name}: {row.problem}"
    added = ", packed" if row.packed else "" if row.done else f", {about(row.seconds)}"
    return f"{row.cell.name}: {row.left}{added}"


def about(seconds: float | None) -> str:
    """A time that was estimated.

    >>> about(75), about(None)
    ('about 1 min 15 s', 'time unknown')
    """
    return "time unknown" if seconds is None else f"about {duration(seconds)}"


def _attempt(cell: Cell, folder: Path, device: str, budget: Budget, times: Times) -> bool:
    """Make a cell, unless time is up before; False, after saying why, where it cannot be made."""
    try:
        make_cell(cell, folder, device, budget, times)
    except KeyboardInterrupt:
        if not budget.spent:
            raise
    except (ValueError, ArithmeticError, OSError, ModuleNotFoundError) as error:
        print(f"ars: {cell.name}: {told(error)}", file=sys.stderr, flush=True)
        return False
    except Exception:  # whatever it is, it is this cell's
        print(f"ars: {cell.name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return False
    return True


def make_cell(cell: Cell, folder: Path, device_name: str, budget: Budget, times: Times) -> None:
    """Do what is left of a cell, step by step."""
    left = what_is_left(cell, folder)
    from ars.experiments.device import choose_device
    from ars.experiments.sweeps.masks import draw_pipeline_of, save_average_masks
    from ars.experiments.weights import round_weights

    if left.train:
        train_with_progress(cell.recipe, folder, device_name, enough=budget.watch(), starts=folder.parent)
        end_if_asked()
    if left.rounding:
        round_weights(folder / MODEL)
    if left.images:
        shard = SHARD_SIZE * (times.of(cell, "image") or 0.0)
        request = cell_request(cell, folder, cell_settings(cell, folder))
        certify_with_progress(request, device_name, enough=budget.watch(shard), over=budget.over)
        end_if_asked()
    settings = cell_settings(cell, folder)
    if left.vote:
        enough = budget.watch()
        print(sentence(vote_with_progress(folder, settings, device_name, draws=cell.vote, enough=enough)), flush=True)
        end_if_asked()
    if left.masks:
        device = choose_device(device_name)
        draw_pipeline_of(cell_request(cell, folder, settings), device=device)
        save_average_masks(folder, settings, device=device)
