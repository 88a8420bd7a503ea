"""What the page shows of one setting: its methods beside each other, the verdict, and how far the best is ahead."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ars.certification.bounds import Bound
from ars.report.attacks import AttackedGroup
from ars.report.grouping import Group, comparable, standard_lead
from ars.report.measures import Lead, Spread, rounded, show_radius, unit_name
from ars.report.pipeline_figure import Pipeline
from ars.report.rendering import UNDECIDED, WIDE, Column, make_columns, note, percent
from ars.report.table import Block, Row
from ars.runs.run import Run

NARROW, PAPER = "narrow", "paper"
"""Kinds of columns besides WIDE: shown on narrow screens only, where the others are hidden, or the paper's."""


@dataclass(frozen=True)
class Member:
    """The seeds of a method, certified or not yet, and what else their folders hold."""

    method: str
    label: str
    group: Group | None
    votes: Spread
    """The plain vote's accuracy on the whole test set."""
    minutes: Spread
    paper: str = ""
    """The published standard accuracy as it is printed."""
    recipes: tuple[tuple[int, str], ...] = ()
    """The seeds, each with the place of its recipe on the page."""


Leads = tuple[Lead | None, Lead | None]
"""How far one member is ahead of another: in standard accuracy, and in the plain vote."""


def certified_lead(one: Member, other: Member, bound: Bound) -> Leads:
    """The lead over all seeds; none where the two cannot be compared."""
    if one.group and other.group and comparable(one.group, other.group):
        return standard_lead(one.group, other.group, bound), None
    return None, None


@dataclass(frozen=True)
class Mask:
    """A mask as a picture, and the outline of its object in CSS where it is known."""

    label: str
    alt: str
    source: str
    outline: str = ""


@dataclass(frozen=True)
class View:
    """One setting; place has its values for the controls of the page, by their names."""

    place: Mapping[str, str]
    heading: str
    about: str
    blocks: tuple[Block, ...]
    members: tuple[Member, ...]
    notes: tuple[str, ...] = ()
    missing: str = ""
    """What the paper has at this setting and we do not."""
    pipelines: tuple[Pipeline, ...] = ()
    masks: tuple[Mask, ...] = ()
    mask_note: str = ""
    listed: tuple[Run, ...] = ()
    """The runs whose images are listed one by one."""
    attacked: tuple[AttackedGroup, ...] = ()
    """The members with attacked runs."""
    lead: Callable[[Member, Member, Bound], Leads] = field(default=certified_lead)

    def rows(self, block: Block) -> list[tuple[Member, Row | None]]:
        """The members with their rows in a block; those that are not certified stand in the first block only."""
        found = {id(row.group.runs[0]): row for row in block.rows}
        pairs = [(member, found.get(id(member.group.runs[0])) if member.group else None) for member in self.members]
        return [(member, row) for member, row in pairs if row or (not member.group and block is self.blocks[0])]


@dataclass(frozen=True)
class Comparison:
    """The page's tables of one block, the verdict above them and the leads below."""

    block: Block
    members: tuple[Member, ...]
    best: tuple[bool, ...]
    """Which members are the best; none where not all can be compared."""
    columns: Sequence[Column]
    details: Sequence[Column]
    verdict: str
    first: str
    """The label of the member that the leads are of."""
    leads: tuple[tuple[Member, str, str], ...]
    """Every other member with the leads in standard accuracy and in the vote."""
    note: str


def compare(view: View, block: Block) -> Comparison:
    """Judge the rows of a block and lay them out."""
    columns, details = _lay_out(view, block)
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
        columns=columns,
        details=details,
        verdict=_verdict(block, order, fair=fair, lead=leads[0][1] if leads else None),
        first=order[0][0].label if order else "",
        leads=tuple((other, _text(own), _text(vote)) for other, own, vote in leads if own or vote),
        note=note(block),
    )


def _text(lead: Lead | None) -> str:
    return UNDECIDED if lead is None else lead.text()


def _lay_out(view: View, block: Block) -> tuple[list[Column], list[Column]]:
    """What the rows are judged by; what else was measured, and what narrow screens have no room for above."""
    members = [member for member, _ in view.rows(block)]
    standard, *measured = make_columns(block, [row for _, row in view.rows(block)])[1:]
    papers = [member.paper or UNDECIDED for member in members] if block.headline else []
    minutes = [rounded(member.minutes.mean) if member.minutes.values else UNDECIDED for member in members]
    judged = [column for column in measured if not column.detail]
    hidden = [replace(column, kind=NARROW) for column in judged if column.kind == WIDE]
    rest = [column for column in measured if column.detail]
    votes = _if_any("vote", [percent(member.votes) for member in members])
    columns = [standard, *_if_any("paper", papers, PAPER), *judged, *votes]
    return columns, [*hidden, *rest, *_if_any("training min", minutes)]


def _if_any(name: str, texts: Sequence[str], kind: str = "") -> list[Column]:
    """A column, if any member has something in it."""
    return [Column(name, name, tuple(texts), kind=kind)] if any(text != UNDECIDED for text in texts) else []


def _judged(row: Row) -> Spread:
    """The measure that rows are judged by: the standard accuracy, or the accuracy at the smallest radius decided."""
    return row.standard if row.standard.values else row.certified[0] if row.certified else Spread()


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
        return f"{best.label} is best: {says}, {lead.text()} points more than {other.label}, the next."
    return f"{best.label} is ahead: {says}, but its lead over {other.label}, {lead.text()} points, may be chance."
