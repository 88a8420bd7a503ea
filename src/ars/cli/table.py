"""The table of certified runs, for the terminal or for a program."""

from collections.abc import Sequence
from pathlib import Path

from ars.cli.errors import tell
from ars.report.grouping import make_sections
from ars.report.rendering import to_json, to_rich
from ars.report.table import Table, make_table
from ars.runs.run import load_runs

WIDEST = 1000  # columns of a table that goes to a file
FOLDED = 8  # letters of a name that stay beside each other in a narrow terminal


def print_runs(folders: Sequence[Path], *, name: str, as_json: bool = False) -> None:
    """The table of certified runs."""
    print_table(make_table(make_sections(load_runs(folders, name=name))), as_json=as_json)


def print_table(table: Table, *, as_json: bool = False) -> None:
    """The table for the terminal or for a program; no number is cut, however narrow the terminal is."""
    from rich.console import Console

    if as_json:
        tell(to_json(table))
    else:
        console = Console()
        least = to_rich(table, longest=FOLDED if console.is_terminal else None)
        options = console.options.update(width=WIDEST)
        console.width = max(console.width, console.measure(least, options=options).maximum)
        console.print(to_rich(table))
