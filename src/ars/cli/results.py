"""ars results: the committed results beside the paper's numbers."""

import argparse
import sys
from pathlib import Path

from ars.certification.run_folder import CERTIFY
from ars.cli.options import Subparsers, add_command

TEACH = """\
Rebuild the tables, figures and the page of a results folder beside the paper's published numbers, from the records of
its cells alone: no model is run, and neither torch nor a GPU is needed. manifest.json says which record files, with
their SHA-256, each table and figure was made from.

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
    from ars.report.archive import write_results

    out = options.out or options.folder
    written = write_results(options.folder, out)
    print(f"{written.cells} cells: wrote {len(written.sheets)} tables and {written.figures} figures")
    for name in written.uncertified:
        print(
            f"ars: {options.folder / name} has no records, so no table of certified images has it; pack it again, with "
            f"its {CERTIFY}/",
            file=sys.stderr,
        )
    print(f"open {out / 'index.html'}")
    return 0
