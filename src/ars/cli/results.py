"""ars results: ars report for the committed results, into their own folder."""

import argparse
from pathlib import Path

from ars.cli.options import Subparsers, add_command
from ars.cli.report import write_packed

TEACH = """\
Rebuild the tables, figures and the page of a folder of packed results beside the paper's published numbers, from the
records of its cells alone: no model is run, and neither torch nor a GPU is needed. manifest.json names the record
files, with their SHA-256, that each table and figure was made from.

  ars results                          results/ in place, as make results does
  ars results results --out again      into another folder; tables and manifest are equal byte by byte
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "results", run, summary="tables and figures beside the paper's", teach=TEACH)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results"), metavar="RESULTS",
                        help="folder of sweeps, SWEEP/CELL/recipe.yaml (default: results)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="where they go (default: into RESULTS)")


def run(options: argparse.Namespace) -> int:
    """Write all and say where the page is."""
    return write_packed(options.folder, options.out or options.folder)
