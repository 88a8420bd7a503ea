"""ars report: tables, curves and a page from the records of runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ars.certification.run_folder import MAIN
from ars.cli.options import Subparsers, add_command

TEACH = """\
Make a report from the records of one or more runs: a table, certified-accuracy curves, the images of each run one by
one (images-RUN.csv), the pipeline figures of runs that saved their stages, and one self-contained HTML page. No model
is run. What an earlier report left in DIR and nobody has changed is removed.

  ars report runs/cohen runs/ars --out report
  ars report runs/ars --out so-far --partial        while images are still being certified
"""
WIDEST = 1000  # columns of a table that goes to a file
FOLDED = 8  # letters of a name that stay beside each other in a narrow terminal


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "report", run, summary="tables, figures and a page from records", teach=TEACH)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="run folders with records")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the report goes")
    parser.add_argument("--name", default=MAIN, help="which records: RUN/certify/NAME (default: test)")
    parser.add_argument("--partial", action="store_true", help="report on the images that are certified so far")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(options: argparse.Namespace) -> int:
    """Write the report and print its table."""
    from ars.report import write_report

    report = write_report(options.folders, options.out, name=options.name, partial=options.partial)
    print_table(options.folders, name=options.name, as_json=options.json, partial=options.partial)
    if not options.json:
        print(f"wrote {len(report.files)} files; open {options.out / 'index.html'}")
    return 0


def print_table(folders: Sequence[Path], *, name: str, as_json: bool, partial: bool = False) -> None:
    """The table of the runs, for the terminal or for a program; no number is cut, however narrow that is."""
    from rich.console import Console

    from ars.report import to_json, to_rich
    from ars.report.groups import make_sections
    from ars.report.results import load_runs
    from ars.report.table import make_table

    table = make_table(make_sections(load_runs(folders, name=name, partial=partial)))
    if as_json:
        print(to_json(table))
    else:
        console = Console()
        least = to_rich(table, longest=FOLDED if console.is_terminal else None)
        options = console.options.update(width=WIDEST)
        console.width = max(console.width, console.measure(least, options=options).maximum)
        console.print(to_rich(table))
