"""A table as data, and as Markdown and CSV; equal data give equal bytes."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

from ars.report.measures import Lead, Spread, in_units, rounded
from ars.report.paper.cells import Cell
from ars.report.paper.entries import Entry
from ars.report.paper.published import Printed
from ars.report.rendering import UNDECIDED
from ars.theory.numbers import truncate


@dataclass(frozen=True)
class Number:
    """A number as readers see it, and in full for a program: with two more decimals, and its error apart."""

    text: str
    in_full: tuple[str, str]

    def __str__(self) -> str:
        return self.text


def number(mean: float, std: float | None = None, decimals: int = 1, *, cut: bool = False) -> Number:
    """A mean and its standard deviation over the seeds; a radius is cut, never rounded up."""

    def digits(decimals: int) -> tuple[str, str]:
        shown = truncate(Fraction(mean), decimals) if cut else rounded(mean, decimals)
        return shown, "" if std is None else rounded(std, decimals)

    shown, error = digits(decimals)
    return Number(shown + (f" ({error})" if error else ""), digits(decimals + 2))


def ahead(lead: Lead, scale: int = 100, decimals: int = 1) -> Number:
    """A difference and its standard error."""
    return Number(lead.text(scale, decimals), lead.shown(scale, decimals + 2))


Value = Number | Printed | str | int | None


@dataclass(frozen=True)
class Column:
    """A heading for readers, a name for programs; for programs, the error beside a number has its own column."""

    heading: str
    name: str
    number: bool = True
    beside: str = "std"


def words(**headings: str) -> list[Column]:
    """Columns of text by their names, with their headings."""
    return [Column(heading, name, number=False) for name, heading in headings.items()]


def numbers(*, beside: str = "std", **headings: str) -> list[Column]:
    """Columns of numbers by their names, with their headings."""
    return [Column(heading, name, beside=beside) for name, heading in headings.items()]


COLUMNS = words(k="k", sigma="σ", method="method")
WHERE = [*words(benchmark="benchmark"), *COLUMNS]
"""What COLUMNS are in a table of several benchmarks."""
HOW = words(images="images", draws="draws", alpha="α")
"""How a number was certified."""


def how(entry: Entry | None) -> tuple[str | None, str | None, str | None]:
    """The values under the headings of HOW; a star where more images are to come."""
    if entry is None or entry.images is None:
        return None, None, None
    return f"{entry.images}{'*' if entry.missing else ''}", entry.draws, entry.alpha


def where(entry: Entry) -> tuple[str, int, str, str]:
    """Benchmark and setting of ours, under the headings of WHERE."""
    return entry.first.benchmark, entry.first.k, f"{entry.first.sigma:g}", entry.label


@dataclass(frozen=True)
class Line:
    """The values of a row and the entry that ours come from; None where there is only the paper's.

    over is the entry that a difference is to.
    """

    values: tuple[Value, ...]
    entry: Entry | None
    over: Entry | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that its values come from."""
        return tuple(entry for entry in (self.entry, self.over) if entry)


@dataclass(frozen=True)
class Sheet:
    """A table with its notes; recipe and inputs stand beside every number of ours."""

    name: str
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    cells: tuple[Cell, ...] = ()
    """The cells of a table that sums over them instead of naming the recipe in every line."""
    lead: str = ""
    """What is said before the table."""
    files: tuple[Path, ...] = ()
    """What its numbers come from besides the cells' records."""

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that its numbers come from."""
        cells = [cell for line in self.lines for entry in line.entries for cell in entry.cells]
        return (*(path for cell in (*cells, *self.cells) for path in cell.sources), *self.files)

    def without(self, *names: str) -> "Sheet":
        """The table without the columns of these names."""
        kept = [number for number, column in enumerate(self.columns) if column.name not in names]
        lines = (replace(line, values=tuple(line.values[number] for number in kept)) for line in self.lines)
        return replace(self, columns=tuple(self.columns[number] for number in kept), lines=tuple(lines))


def scaled(spread: Spread, scale: float = 1, decimals: int = 1) -> Number | None:
    """A measure in another unit; None where nothing was measured."""
    if not spread.values:
        return None
    return number(scale * spread.mean, None if spread.std is None else scale * spread.std, decimals)


def percent(spread: Spread) -> Number | None:
    """Fractions as percentages; None where nothing was measured."""
    return scaled(spread, 100)


def radius_255(spread: Spread) -> Number | None:
    """Linf radii in 1/255, cut."""
    if not spread.values:
        return None
    std = None if spread.std is None else 255 * spread.std
    return number(in_units(spread.mean, "linf"), std, decimals=2, cut=True)


def difference(ours: Spread, paper: float | None) -> Number | None:
    """Ours less the paper's, in points; only where both are there."""
    return number(100 * ours.mean - paper) if ours.values and paper is not None else None


def to_markdown(sheet: Sheet) -> str:
    """The table with its notes, as it is read on a code host; links lead to the recipes."""
    origin = [] if sheet.cells else ["seeds", "recipe", "inputs"]
    headings = [*(column.heading for column in sheet.columns), *origin]
    align = [*("---:" if column.number else "---" for column in sheet.columns), *("---" for _ in origin)]
    rows = [[*map(_show, line.values), *([] if sheet.cells else _origin_links(line))] for line in sheet.lines]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, align, *rows))
    parts = (f"# {sheet.title}", sheet.lead, table, *sheet.notes)
    return "\n\n".join(part for part in parts if part) + "\n"


def to_csv(sheet: Sheet) -> str:
    """The table for a program: numbers and their errors in separate columns, empty where there are none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [[one.name, f"{one.name}_{one.beside}"] if one.number else [one.name] for one in sheet.columns]
    origin = [] if sheet.cells else ["seeds", "recipe", "recipes", "inputs"]
    writer.writerow([*chain(*names), *origin])
    for line in sheet.lines:
        writer.writerow([*chain(*map(_fields, sheet.columns, line.values)), *([] if sheet.cells else _origin(line))])
    return text.getvalue()


def _show(value: Value) -> str:
    return UNDECIDED if value is None else str(value)


def _fields(column: Column, value: Value) -> Sequence[str]:
    if isinstance(value, Number | Printed):
        return value.in_full
    text = "" if value is None else str(value)
    return (text, "") if column.number else (text,)


def _origin(line: Line) -> list[str]:
    if line.entry is None:
        return ["", "", "", ""]
    first = line.entry.first
    seeds = " ".join(str(cell.seed) for cell in line.entry.cells)
    recipes = " ".join(cell.recipe for entry in line.entries for cell in entry.cells)
    return [seeds, first.recipe_name, recipes, first.inputs]


def _origin_links(line: Line) -> list[str]:
    if line.entry is None:
        return [UNDECIDED] * 3
    first = line.entry.first
    links = (" ".join(f"[{cell.seed}](../{cell.recipe})" for cell in entry.cells) for entry in line.entries)
    return [line.entry.seeds, f"{first.recipe_name}: {'; '.join(links)}", first.inputs]
