"""A table as data, and as Markdown and CSV; equal data give equal bytes."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path

from ars.report.measures import Lead, Spread, in_units, rounded
from ars.report.paper.cells import Cell
from ars.report.paper.entries import NOT_RUN, Entry
from ars.report.paper.published import Printed
from ars.report.rendering import UNDECIDED, cell_text
from ars.theory.rounding import truncate


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
"""COLUMNS for a table of several benchmarks."""
HOW = words(images="images", draws="draws", alpha="α")


def how(entry: Entry) -> dict[str, Value]:
    """The values under the headings of HOW; a star where more images are to come."""
    if not entry.images:
        return {}
    return {"images": f"{entry.images}{'*' if entry.missing else ''}", "draws": entry.draws, "alpha": entry.alpha}


def where(entry: Entry) -> dict[str, Value]:
    """Benchmark and setting of ours, under the headings of WHERE."""
    first = entry.first
    return {"benchmark": first.benchmark, "k": first.k, "sigma": f"{first.sigma:g}", "method": entry.label}


@dataclass(frozen=True)
class Line:
    """The values of a row by the names of their columns, and the entry that ours come from.

    A column without a value has a dash. over is the entry that a difference is to.
    """

    values: Mapping[str, Value]
    entry: Entry = NOT_RUN
    over: Entry = NOT_RUN

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All that its values come from."""
        return (*self.entry.cells, *self.over.cells)


@dataclass(frozen=True)
class Sheet:
    """A table with its notes; recipe and inputs stand beside every number of ours."""

    name: str
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()
    """The cells of a table that sums over them instead of naming the recipe in every line."""
    lead: str = ""
    files: tuple[Path, ...] = ()
    """What its numbers come from besides the cells' records."""

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that its numbers come from."""
        cells = [cell for line in self.lines for cell in line.cells]
        return (*(path for cell in (*cells, *self.cells) for path in cell.sources), *self.files)


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
    rows = []
    for line in sheet.lines:
        values = (line.values.get(column.name) for column in sheet.columns)
        texts = [UNDECIDED if value is None else str(value) for value in values]
        rows.append([*texts, *([] if sheet.cells else _origin_links(line))])
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
        values = chain(*(_fields(column, line.values.get(column.name)) for column in sheet.columns))
        writer.writerow(map(cell_text, [*values, *([] if sheet.cells else _origin(line))]))
    return text.getvalue()


def _fields(column: Column, value: Value) -> Sequence[str]:
    if isinstance(value, Number | Printed):
        return value.in_full
    text = "" if value is None else str(value)
    return (text, "") if column.number else (text,)


def _origin(line: Line) -> list[str]:
    if not line.entry.cells:
        return ["", "", "", ""]
    first, seeds = line.entry.first, " ".join(str(cell.seed) for cell in line.entry.cells)
    return [seeds, first.recipe_name, " ".join(cell.recipe for cell in line.cells), first.inputs]


def _origin_links(line: Line) -> list[str]:
    if not line.entry.cells:
        return [UNDECIDED] * 3
    entries = (line.entry, line.over) if line.over.cells else (line.entry,)
    links = (" ".join(f"[{cell.seed}](../{cell.recipe})" for cell in entry.cells) for entry in entries)
    return [line.entry.seeds, f"{line.entry.first.recipe_name}: {'; '.join(links)}", line.entry.first.inputs]
