"""ars pack: the finished cells of a sweep as a small folder to keep."""

import argparse
from pathlib import Path

from ars.cli.options import Subparsers, add_command
from ars.experiments.sweeps.file import Cell, read_sweep
from ars.experiments.sweeps.packing import not_named, pack_sweep

TEACH = """\
Pack what is worth keeping of the finished cells of a sweep into RESULTS/<name of the sweep>: resolved recipes, training
logs, all votes, the accuracy of the plain vote, a few masks, and the weights (as bf16) where the sweep file says so.
No image of another benchmark than the embedded digits is packed, and no path of this machine. Packing again gives the
same bytes.

  ars pack recipes/sweeps/headline.yaml --runs runs/fast --out results
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "pack", run, summary="pack the results of a sweep", teach=TEACH, goes_on=True)
    parser.add_argument("sweep", type=Path, metavar="SWEEP", help="a sweep file")
    parser.add_argument("--runs", type=Path, required=True, metavar="RUNS", help="where ars sweep put its run folders")
    parser.add_argument("--out", type=Path, required=True, metavar="RESULTS", help="where RESULTS/<sweep> goes")


def run(options: argparse.Namespace) -> int:
    """Pack, naming what is packed and what is not there yet."""
    sweep = read_sweep(options.sweep)

    def report(cell: Cell, what: str) -> None:
        print(f"{cell.name}: {what}", flush=True)

    packed = pack_sweep(sweep, options.runs, options.out, report=report)
    if not packed:
        raise ValueError(f"no cell of {sweep.name} is finished in {options.runs}; run ars sweep first")
    print(f"packed {packed} of {len(sweep.cells)} cells into {options.out / sweep.name}")
    if others := not_named(sweep, options.out):
        print(f"left as they are, since {options.sweep} does not name them: {', '.join(others)}")
    return 0
