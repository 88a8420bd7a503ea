"""The rows of a block judged and laid out for the page: the verdict, the table, and how far the best is ahead."""

from collections.abc import Sequence
from dataclasses import dataclass

from ars.report.grouping import comparable
from ars.report.measures import NOT_MEASURED, Lead, Spread, rounded, show_radius, unit_name
from ars.report.rendering import UNDECIDED, block_cells, headers, note, percent
from ars.report.table import Block, Row
from ars.report.views import Member, View

WIDE, NARROW, PAPER = "wide", "narrow", "paper"
"""Kinds of columns: shown on wide or narrow screens only (what one table hides the other shows), or the paper's."""


@dataclass(frozen=True)
class Column:
    """A column of the page's tables: a text per member, and for an accuracy the percentages of its bars."""

    name: str
    texts: tuple[str, ...]
    bars: tuple[float | None, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class Comparison:
    """The page's tables of one block, the verdict above them and the leads below."""

    block: Block
    members: tuple[Member, ...]
    best: tuple[bool, ...]
    """Which members are the best; none where not all can be compared."""
    columns: tuple[Column, ...]
    details: tuple[Column, ...]
    verdict: str
    first: str
    """The label of the member that the leads are of."""
    leads: tuple[tuple[Member, str, str], ...]
    """Every other member with the leads in standard accuracy and in the vote."""
    note: str


def compare(view: View, block: Block) -> Comparison:
    """Judge the rows of a block and lay them out."""
    rows = view.rows(block)
    judged = [(member, row) for member, row in rows if row and _judged(row).values]
    order = sorted(judged, key=lambda pair: -_judged(pair[1]).mean)
    fair = all(comparable(order[0][1].group, row.group) for _, row in order[1:])
    best = {id(row) for _, row in order if _judged(row).mean == _judged(order[0][1]).mean}
    leads = [(other, *view.lead(order[0][0], other, block.bound)) for other, _ in order[1:]]
    ahead = all(own is None or own.mean > 0 for _, own, _ in leads[len(best) - 1 :])
    marked = best if fair and ahead and len(best) < len(order) else set()
    return Comparison(
        block=block,
        members=tuple(member for member, _ in rows),
        best=tuple(id(row) in marked for _, row in rows),
        columns=tuple(_columns(block, rows)),
        details=tuple(_details(block, rows)),
        verdict=_verdict(block, order, fair=fair, lead=leads[0][1] if leads else None),
        first=order[0][0].label if order else "",
        leads=tuple((other, lead_text(own), lead_text(vote)) for other, own, vote in leads if own or vote),
        note=note(block),
    )


Rows = Sequence[tuple[Member, Row | None]]


def _columns(block: Block, rows: Rows) -> list[Column]:
    """What the rows are judged by."""
    texts, average = _texts(block, rows), 2 + len(block.radii)
    certified = [_accuracy(texts, rows, number, WIDE) for number in range(2, average)]
    paper = _measured("paper", [member.paper or UNDECIDED for member, _ in rows], PAPER) if block.headline else []
    votes = _measured("vote", [percent(member.votes) for member, _ in rows])
    differing = texts[average + 4 : -1]  # α and N if they differ
    return [_accuracy(texts, rows, 1), *paper, *certified, texts[average], *differing, *votes]


def _details(block: Block, rows: Rows) -> list[Column]:
    """What else was measured, and the columns that narrow screens have no room for above."""
    texts, average = _texts(block, rows), 2 + len(block.radii)
    certified = [_accuracy(texts, rows, number, NARROW) for number in range(2, average)]
    minutes = [rounded(member.minutes.mean) if member.minutes.values else UNDECIDED for member, _ in rows]
    return [*certified, *texts[average + 1 : average + 4], texts[-1], *_measured("training min", minutes)]


def _texts(block: Block, rows: Rows) -> list[Column]:
    """The columns of the block's table; a dash where a member has no row."""
    cells = dict(zip(map(id, block.rows), block_cells(block), strict=True))
    names = headers(block)
    texts = [cells[id(row)] if row else [UNDECIDED] * len(names) for _, row in rows]
    return [Column(name, tuple(line[number] for line in texts)) for number, name in enumerate(names)]


def _accuracy(texts: Sequence[Column], rows: Rows, number: int, kind: str = "") -> Column:
    """The column of this number, which is the standard accuracy or that at a radius, with its bars."""
    spreads = [(row.standard, *row.certified)[number - 1] if row else NOT_MEASURED for _, row in rows]
    bars = tuple(100 * spread.mean if spread.values else None for spread in spreads)
    return Column(texts[number].name, texts[number].texts, bars, kind)


def _measured(name: str, texts: Sequence[str], kind: str = "") -> list[Column]:
    """A column, if any member has something in it."""
    return [Column(name, tuple(texts), kind=kind)] if any(text != UNDECIDED for text in texts) else []


def _judged(row: Row) -> Spread:
    """The measure that rows are judged by: the standard accuracy, or the accuracy at the smallest radius decided."""
    return row.standard if row.standard.values else row.certified[0] if row.certified else NOT_MEASURED


def _verdict(block: Block, order: Sequence[tuple[Member, Row]], *, fair: bool, lead: Lead | None) -> str:
    """What the rows come to, in one sentence."""
    if not order:
        return "Nothing is certified here yet."
    (best, row), unit = order[0], unit_name(block.norm)
    at = "" if row.standard.values else f" at radius {block.radii[0]:g}{unit}"
    share = f"{rounded(100 * _judged(row).mean)}% of {f'the {block.images}' if block.images else 'its images'}"
    if len(order) == 1:
        average = row.average_radius
        radius = f", with an average radius of {show_radius(average.mean, block.norm)}{unit}" if average.values else ""
        return f"{best.label} certifies the correct answer{at} for {share}{radius}."
    if not fair:
        return f"{best.label} has the highest certified accuracy{at}, {share}, but not all rows can be compared."
    other, next_row = order[1]
    if _judged(row).mean == _judged(next_row).mean:
        return f"{best.label} and {other.label} are level: each certifies the correct answer{at} for {share}."
    says = f"it certifies the correct answer{at} for {share}"
    if lead is None:
        return f"{best.label} is best: {says}."
    if lead.mean <= 0:  # the lead is over the seeds that both have
        return f"{best.label} has the highest mean: {says}; but on the same seeds {other.label} is not behind."
    if lead.error is not None and lead.mean > 2 * lead.error:
        return f"{best.label} is best: {says}, {lead_text(lead)} points more than {other.label}, the next."
    return f"{best.label} is ahead: {says}, but its lead over {other.label}, {lead_text(lead)} points, may be chance."


def lead_text(lead: Lead | None) -> str:
    """A lead in points with its standard error; a dash where there is none."""
    return UNDECIDED if lead is None else " ± ".join(text for text in lead.shown(100) if text)
