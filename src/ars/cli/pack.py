"""ars pack: keep the finished cells of a sweep in a small folder."""

import argparse
from pathlib import Path

from ars.cli.errors import tell
from ars.cli.options import Subparsers, add_command
from ars.workflows.sweeps.file import Cell, read_sweep
from ars.workflows.sweeps.pack import pack_sweep, unlisted_cells

TEACH = """\
Pack the finished cells of a sweep into RESULTS/<name of the sweep>: resolved recipes, training logs, all votes, the
accuracy of the plain vote, a few masks, and the weights (as bf16) if the sweep file says so. Only the embedded digits
are packed as images, and no path of this machine is packed. Packing again gives the same bytes.

  ars pack headline --runs runs/fast --out results
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "pack", run, summary="pack the results of a sweep", teach=TEACH, resumable=True)
    parser.add_argument("sweep", type=Path, metavar="SWEEP", help="a sweep file")
    parser.add_argument("--runs", type=Path, required=True, metavar="RUNS", help="where ars sweep put its run folders")
    parser.add_argument("--out", type=Path, required=True, metavar="RESULTS", help="where RESULTS/<sweep> goes")


def run(options: argparse.Namespace) -> int:
    """Pack, and name the cells that are packed and those that are not finished."""
    sweep = read_sweep(options.sweep)

    def report(cell: Cell, what: str) -> None:
        tell(f"{cell.name}: {what}")

    packed = pack_sweep(sweep, options.runs, options.out, report=report)
    if not packed:
        raise ValueError(f"no cell of {sweep.name} is finished in {options.runs}; run ars sweep first")
    tell(f"packed {packed} of {len(sweep.cells)} cells into {options.out / sweep.name}")
    if others := unlisted_cells(sweep, options.out):
        tell(f"kept, although {options.sweep} does not name them: {', '.join(others)}")
    return 0
