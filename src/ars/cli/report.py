"""ars report: tables, curves and a page from the records of runs, or from a folder of packed results."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ars.cli.errors import tell
from ars.cli.options import Subparsers, add_command
from ars.runs.paths import CERTIFY, MAIN, RECIPE
from ars.theory import NORMS

TEACH = """\
Make a report from the records of one or more runs: a table, certified-accuracy curves, one line per image
(images-RUN.csv, and log-RUN.tsv in the form of locuslab/smoothing), the pipeline figures of runs that saved their
stages, and one self-contained HTML page with the paper's numbers beside yours where it has some. No model is run. Files
that an earlier report left in DIR are removed, unless they were changed.

  ars report runs/cohen runs/ars --out report
  ars report runs/ars --out so-far --partial        while images are still being certified
  ars report results/digits --out report            every cell of one sweep
  ars report runs/ars theirs.tsv --out report       beside a log of locuslab's form, which is not checked
  ars report results --out again                    packed results, SWEEP/CELL: what ars results writes
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "report", run, summary="tables, figures and a page from records", teach=TEACH)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="run folders with records, a sweep of "
                        "them, or one folder of packed results; also logs of other programs")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the report goes")
    parser.add_argument("--name", default=MAIN, help="which records: RUN/certify/NAME (default: test)")
    parser.add_argument("--partial", action="store_true", help="report on the images that are certified so far")
    parser.add_argument("--log-norm", choices=NORMS, default="l2", help="the norm of the radii in logs (default: l2)")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(options: argparse.Namespace) -> int:
    """Write the report and print its table."""
    logs = [path for path in options.folders if path.is_file()]
    folders = [path for path in options.folders if path not in logs]
    packed = next((folder for folder in folders if _holds(folder, f"*/*/{RECIPE}")), None)
    if packed is not None:
        if len(options.folders) > 1 or options.name != MAIN or options.partial or options.json:
            raise ValueError(
                f"{packed} holds packed results, which are reported as a whole; give it alone, without --name, "
                "--partial and --json"
            )
        return write_packed(packed, options.out)
    if not folders:
        raise ValueError(f"{logs[0]} is a log without votes; give a run folder that it is reported beside")
    from ars.cli.table import print_table
    from ars.report import write_report

    report = write_report(
        run_folders(folders),
        options.out,
        name=options.name,
        partial=options.partial,
        logs=logs,
        log_norm=options.log_norm,
    )
    print_table(report.table, as_json=options.json)
    if not options.json:
        tell(f"wrote {len(report.files)} files; open {options.out / 'index.html'}")
    return 0


def run_folders(folders: Sequence[Path]) -> list[Path]:
    """The run folders themselves; of a sweep, all that are in it."""
    return [path for folder in folders
            for path in (sorted(own.parent for own in folder.glob(f"*/{RECIPE}")) if _holds(folder, f"*/{RECIPE}")
                         else [folder])]  # fmt: skip


def _holds(folder: Path, pattern: str) -> bool:
    return not (folder / RECIPE).exists() and any(folder.glob(pattern))


def write_packed(folder: Path, out: Path) -> int:
    """Write the report of packed results and say where the page is."""
    from ars.report.paper.results import write_results

    written = write_results(folder, out)
    tell(f"{written.cells} cells: wrote {len(written.sheets)} tables and {written.figures} figures")
    for name in written.uncertified:
        tell(
            f"ars: {folder / name} has no records, so no table of certified images has it; pack it again, with "
            f"its {CERTIFY}/",
            file=sys.stderr,
        )
    tell(f"open {out / 'index.html'}")
    return 0
