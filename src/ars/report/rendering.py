"""The table for readers: cell texts, Markdown, JSON and the terminal; and the images of a run as CSV."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ars.certification.settings import radius_name
from ars.report.grouping import radius_lead, standard_lead
from ars.report.measures import (
    Lead,
    Spread,
    in_units,
    outcomes_of_log,
    rounded,
    show_grid_radius,
    show_radius,
    unit_name,
    unit_scale,
)
from ars.report.table import Block, Row, Table, comparable_pairs
from ars.runs.logs import Log
from ars.runs.run import Run
from ars.theory import Norm

if TYPE_CHECKING:
    from rich.console import RenderableType

CSV_DECIMALS = 4
UNDECIDED = "–"
"""A measure that was not made, or not decided: a grid decides its own radii only."""


@dataclass(frozen=True)
class Column:
    """A column of a block's table: a text per row, and for an accuracy the percentages of its bars on the page."""

    name: str
    short: str
    """The heading in a terminal of 80 columns, where the unit stands in the title."""
    texts: tuple[str, ...]
    bars: tuple[float | None, ...] = ()
    kind: str = ""
    detail: bool = False
    """Whether it is only a detail, by which rows are not judged."""


WIDE = "wide"
"""The kind of columns that the page has room for on wide screens only."""


def make_columns(block: Block, rows: Sequence[Row | None] | None = None) -> list[Column]:
    """The columns of these rows of a block, of all unless told otherwise; None is a row of dashes.

    α and N have columns where the rows of the block differ in them. Average radii are cut, never rounded up.
    """
    rows = block.rows if rows is None else rows
    unit, norm = unit_name(block.norm), block.norm

    def column(name: str, short: str, text: Callable[[Row], str], *, detail: bool = False) -> Column:
        return Column(name, short, tuple(text(row) if row else UNDECIDED for row in rows), detail=detail)

    names = [("standard", "acc %", ""), *((f"≥ {r}{unit}", f"r≥{r}", WIDE) for r in map(radius_name, block.radii))]
    spreads = [(row.standard, *row.certified) if row else (Spread(),) * len(names) for row in rows]
    accuracies = []
    for (name, short, kind), found in zip(names, zip(*spreads, strict=True), strict=True):
        bars = tuple(100 * spread.mean if spread.values else None for spread in found)
        accuracies.append(Column(name, short, tuple(map(percent, found)), bars, kind))
    average = "avg radius" + (f" ({unit})" if unit else "")
    return [
        column("method", "method", lambda row: row.group.label),
        *accuracies,
        column(average, "avg r", lambda row: _radius(row.average_radius, norm)),
        column("abstained", "abst", lambda row: percent(row.abstentions), detail=True),
        column("seeds", "seeds", lambda row: str(len(row.group.runs)), detail=True),
        column("n", "n", lambda row: row.images_text, detail=True),
        *([column("α", "α", lambda row: f"{row.group.settings.alpha}")] if block.section.alpha is None else []),
        *([column("N", "N", lambda row: row.group.draws)] if block.section.draws is None else []),
        column("s/image", "s/im", lambda row: f"{row.seconds.mean:.2g}", detail=True),
    ]


UNCHECKED = "Read from a log, not checked"


def log_columns(block: Block) -> list[Column]:
    """The columns of the logs beside a block: what can be said without votes."""
    answers = [outcomes_of_log(log) for log in block.logs]
    unit, scale = unit_name(block.norm), unit_scale(block.norm)
    radii = [0.0, *block.radii]
    names = [("standard", "acc %"), *((f"≥ {r}{unit}", f"r≥{r}") for r in map(radius_name, block.radii))]
    accuracies = [[one.certified_accuracy(radius / scale) for one in answers] for radius in radii]
    shares = [
        Column(name, short, tuple(percent(Spread.of([share])) for share in found))
        for (name, short), found in zip(names, accuracies, strict=True)
    ]
    average = tuple(_radius(Spread.of([one.average_radius]), block.norm) for one in answers)
    return [
        Column("log", "log", tuple(log.name for log in block.logs)),
        *shares,
        Column("avg radius" + (f" ({unit})" if unit else ""), "avg r", average),
        Column("abstained", "abst", tuple(percent(Spread.of([one.abstention_rate])) for one in answers)),
        Column("n", "n", tuple(str(len(one)) for one in answers)),
    ]


def note(block: Block) -> str:
    """How to read the numbers of a block."""
    errors = [100 * row.standard_error for row in block.rows if row.standard_error is not None]
    at_most = f", for the standard accuracies here at most {max(errors):.1f} points" if errors else ""
    seeds = " (standard deviation over the seeds)" if any(len(row.group.runs) > 1 for row in block.rows) else ""
    text = (
        f"Accuracies in percent{seeds}; an accuracy p on n images has a standard error of √(p(1−p)/n){at_most}. "
        "Average radii are cut, never rounded up."
    )
    if any(row.missing for row in block.rows):
        text += " * So far: images of these runs are still to be certified."
    if block.section.alpha is None:
        text += " α, the failure probability of a certificate, differs: at a larger one more is certified."
    if block.section.draws is None:
        text += " N, the draws per image, differs: with more of them radii are larger."
    return f"{text} {block.other_images}".rstrip()


def leads(block: Block) -> str:
    """How far the last row is ahead of each row that it can be compared with; empty without one."""
    last = block.rows[-1].group
    found = [(other, standard_lead(one, other, block.bound)) for one, other in comparable_pairs(block) if one is last]
    parts = [f"less {other.label}: {lead.text()}" for other, lead in found if lead]
    about = "standard accuracy in points ± standard error, counted image by image"
    return f"{last.label} {'; '.join(parts)} ({about})." if parts else ""


def to_markdown(table: Table) -> str:
    """The table as Markdown, one heading per block."""
    return "\n".join(map(_markdown_block, table.blocks))


def to_json(table: Table) -> str:
    """The table as JSON, every number in full, radii in the unit that stands beside them."""
    return json.dumps([_json_block(block) for block in table.blocks], indent=2, ensure_ascii=False) + "\n"


def to_rich(table: Table, *, longest: int | None = None) -> "RenderableType":
    """The table for a terminal; names are folded where they are longer, or where a number would be cut else."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group as Stack
    from rich.markup import escape
    from rich.table import Table as RichTable

    parts: list[RichTable] = []
    for block in table.blocks:
        unit = unit_name(block.norm)
        units = f"; r in 1{unit}" if unit else ""
        title = escape(f"{block.section.heading}, {block.caption}{units}; {block.judged}")
        look = "bold" if block.headline else "dim"
        part = RichTable(title=title, title_style=look, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        below = " ".join(text for text in (leads(block), block.other_images) if text)
        part.caption, part.caption_justify = f"{escape(below)}\n" if below else None, "left"
        name, *numbers = make_columns(block)
        part.add_column(escape(name.short), overflow="fold", max_width=longest)
        for column in numbers:
            part.add_column(escape(column.short), justify="right", no_wrap=True)
        for line in zip(*(column.texts for column in (name, *numbers)), strict=True):
            part.add_row(*map(escape, line))
        parts.append(part)
        if block.logs:
            logs = RichTable(title=UNCHECKED, title_style="dim", title_justify="left", box=SIMPLE_HEAD)
            for number, column in enumerate(shown := log_columns(block)):
                logs.add_column(escape(column.short), justify="right" if number else "left", no_wrap=bool(number))
            for line in zip(*(column.texts for column in shown), strict=True):
                logs.add_row(*map(escape, line))
            parts.append(logs)
    return Stack(*parts)


def percent(spread: Spread) -> str:
    """Fractions in percent, with the standard deviation over the seeds where there are several."""
    if not spread.values:
        return UNDECIDED
    std = spread.std
    return rounded(100 * spread.mean) + (f" ({rounded(100 * std)})" if std is not None else "")


def _radius(spread: Spread, norm: Norm) -> str:
    if not spread.values:
        return UNDECIDED
    std = spread.std
    return show_radius(spread.mean, norm) + (f" ({std * unit_scale(norm):.2f})" if std is not None else "")


def _markdown_block(block: Block) -> str:
    level = "##" if block.headline else "###"
    logs = f"**{UNCHECKED}**\n\n{markdown_rows(log_columns(block))}" if block.logs else ""
    heading = f"{level} {block.section.heading}, {block.caption}; {block.judged}"
    parts = (heading, markdown_rows(make_columns(block)), leads(block), note(block), logs)
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_rows(columns: Sequence[Column]) -> str:
    """Columns as the rows of a Markdown table; all but the first are aligned to the right."""
    align = ["---", *["---:"] * (len(columns) - 1)]
    lines = [[column.name for column in columns], align, *zip(*(column.texts for column in columns), strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _json_block(block: Block) -> dict[str, Any]:
    first = block.section.first
    return {
        "benchmark": first.title,
        "shape": first.shape,
        "sigma": first.sigma,
        "norm": block.norm,
        "bound": block.bound,
        "headline": block.headline,
        "same_images": block.section.same_images,
        "radius_unit": "1/255" if block.norm == "linf" else "1",
        "rows": [_json_row(row, block.radii) for row in block.rows],
        "differences": [
            {
                "method": one.label,
                "less": other.label,
                "standard_accuracy": _json_lead(standard_lead(one, other, block.bound)),
                "average_certified_radius": _json_lead(radius_lead(one, other, block.bound), unit_scale(block.norm)),
            }
            for one, other in comparable_pairs(block)
        ],
        **({"logs": [_json_log(log, block) for log in block.logs]} if block.logs else {}),
    }


def _json_log(log: Log, block: Block) -> dict[str, Any]:
    answers, scale = outcomes_of_log(log), unit_scale(block.norm)
    shares = [{"radius": radius, "mean": answers.certified_accuracy(radius / scale)} for radius in block.radii]
    return {
        "log": log.name, "checked": False, "images": len(log.lines),
        "standard_accuracy": answers.certified_accuracy(0.0), "certified_accuracy": shares,
    }  # fmt: skip


def _json_row(row: Row, radii: Sequence[float]) -> dict[str, Any]:
    norm = row.group.settings.norm
    average = Spread(tuple(in_units(value, norm) for value in row.average_radius.values))
    certified = zip(radii, row.certified, strict=True)
    return {
        "method": row.group.method,
        "seeds": [run.seed for run in row.group.runs],
        "images": [len(run.records) for run in row.group.runs],
        "judged": [asdict(run.judged) for run in row.group.runs],
        "missing": [run.missing for run in row.group.runs],
        "mode": row.group.settings.schedule.mode,
        "n_estimate": row.group.settings.schedule.n_max,
        "draws_per_image": _json_spread(row.draws),
        "alpha": row.group.settings.alpha,
        **({"exact": True} if row.group.settings.exact else {}),
        "standard_accuracy": _json_spread(row.standard) | {"standard_error": row.standard_error},
        "certified_accuracy": [{"radius": radius, **_json_spread(spread)} for radius, spread in certified],
        "average_certified_radius": _json_spread(average),
        "abstentions": _json_spread(row.abstentions),
        "seconds_per_image": _json_spread(row.seconds),
    }


def _json_lead(lead: Lead | None, scale: int = 1) -> dict[str, float | None] | None:
    error = None if lead is None or lead.error is None else scale * lead.error
    return None if lead is None else {"mean": scale * lead.mean, "standard_error": error}


def _json_spread(spread: Spread) -> dict[str, Any]:
    return {"mean": spread.mean if spread.values else None, "std": spread.std, "values": spread.values}


def cell_text(value: object) -> str:
    """The text of a CSV cell, which no spreadsheet takes for a formula: '=... instead of =...

    >>> cell_text("=1+1"), cell_text(-0.5), cell_text("-1.0, 2.5"), cell_text("+1-2")
    ("'=1+1", '-0.5', '-1.0, 2.5', "'+1-2")
    """
    text = str(value)
    numbers = re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?(, [-+]?[\d.]+)*", text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and not numbers else text


def images_csv(run: Run) -> str:
    """One line per image: its file where that is known, true class, label, radius, candidate and the votes for it.

    The label is empty where the model abstained. Radii are those of the run's norm, which stands beside them, and
    bound, in 1/255 for Linf, and cut.
    """
    norm, grid = run.settings.norm, run.settings.schedule.radii
    show = show_grid_radius if grid else show_radius
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    radius = "radius_255" if norm == "linf" else "radius"
    writer.writerow(["index", "file", "truth", "label", radius, "norm", "candidate", "votes", "draws"])
    for record in run.records:
        found, names = record.certificate, run.class_names
        file, label = run.files[found.index] if run.files else "", "" if found.label is None else names[found.label]
        votes = [names[found.candidate], found.counts[found.candidate], found.n_estimate]
        shown = show(found.radius, norm, CSV_DECIMALS)
        writer.writerow(map(cell_text, [found.index, file, names[record.truth], label, shown, norm, *votes]))
    return text.getvalue()
