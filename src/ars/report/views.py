"""What the page shows of one setting: its methods beside each other, and how they were certified."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ars.certification.bounds import Bound
from ars.report.grouping import Group, comparable, standard_lead
from ars.report.measures import BOUND_NAMES, NOT_MEASURED, Lead, Spread, norm_name
from ars.report.paper.published import lacking, published_text
from ars.report.pipeline import Pipeline
from ars.report.table import Block, Row, Table, judged_text, mean
from ars.runs.run import Run, train_seconds
from ars.runs.vote_count import read_tally


@dataclass(frozen=True)
class Member:
    """The seeds of a method, certified or not yet, and what else their folders hold."""

    method: str
    label: str
    group: Group | None
    votes: Spread = NOT_MEASURED
    """The plain vote's accuracy on the whole test set."""
    minutes: Spread = NOT_MEASURED
    """Minutes of training."""
    paper: str = ""
    """The published standard accuracy as it is printed."""
    recipes: tuple[tuple[int, str], ...] = ()
    """The seeds, each with the place of its recipe on the page."""


Leads = tuple[Lead | None, Lead | None]
"""How far one member is ahead of another: in standard accuracy, and in the plain vote."""


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
    lead: Callable[[Member, Member, Bound], Leads] = field(default=lambda one, other, bound: _lead(one, other, bound))

    def rows(self, block: Block) -> list[tuple[Member, Row | None]]:
        """The members with their rows in a block; those that are not certified stand in the first block only."""
        found = {id(row.group.runs[0]): row for row in block.rows}
        pairs = [(member, found.get(id(member.group.runs[0])) if member.group else None) for member in self.members]
        return [(member, row) for member, row in pairs if row or (not member.group and block is self.blocks[0])]


def _lead(one: Member, other: Member, bound: Bound) -> Leads:
    if one.group and other.group and comparable(one.group, other.group):
        return standard_lead(one.group, other.group, bound), None
    return None, None


def settings_of(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """How the groups were certified: a name, and one text for all or whose is which."""
    every = [run for group in groups for run in group.runs]
    values: list[tuple[str, Callable[[Group], str]]] = [
        ("training seeds", lambda group: _join(run.seed for run in group.runs)),
        ("images", lambda group: judged_text(group.runs, every)),
        ("subset", lambda group: group.settings.subset),
        ("seed of the test inputs", lambda group: f"{group.runs[0].inputs.data.get('seed', 0)}"),
        ("draws per image, N", lambda group: str(group.settings.schedule)),
        ("draws made, on average", lambda group: f"{mean(_draws(group)):,.0f}"),
        ("failure probability, α", lambda group: f"{group.settings.alpha}"),
        ("bound", lambda group: BOUND_NAMES[group.settings.bound]),
        ("noise of the steps", _noise),
        ("seed of the draws", lambda group: _join(dict.fromkeys(run.settings.seed for run in group.runs))),
        ("precision", lambda group: group.settings.precision),
    ]
    return [(name, _of_each([(group.label, value(group)) for group in groups])) for name, value in values]


def _of_each(texts: Sequence[tuple[str, str]]) -> str:
    """A text for all, or every text with whose it is: "ARS, UniCR: 0.5; Cohen et al.: 0.7"."""
    whose: dict[str, list[str]] = {}
    for label, text in texts:
        whose.setdefault(text, []).append(label)
    return next(iter(whose)) if len(whose) == 1 else "; ".join(f"{_join(who)}: {text}" for text, who in whose.items())


def _noise(group: Group) -> str:
    """The noise levels of the steps; those of each run where a split was learned."""
    levels = dict.fromkeys(_join(f"{sigma:.4g}" for sigma in run.settings.sigmas) for run in group.runs)
    return " or ".join(levels) or "by image"


def _draws(group: Group) -> list[int]:
    return [record.certificate.n_estimate for run in group.runs for record in run.records]


def environments(runs: Sequence[Run]) -> list[str]:
    """Every environment that occurs, with the names of the runs that it was recorded for."""
    found = [(run.environment, run.name) for run in runs if run.environment]
    texts = [(" · ".join(f"{key} {value}" for key, value in told.items()), name) for told, name in found]
    names = {text: [name for other, name in texts if other == text] for text, _ in texts}
    return [f"{text} ({'all runs' if len(who) == len(runs) else _join(who)})" for text, who in names.items()]


def views_of_runs(table: Table, pipelines: Mapping[str, Pipeline]) -> list[View]:
    """A view per section of run folders; pipelines are given by run name."""
    return [_view_of(blocks, pipelines) for blocks in table.sections]


def _view_of(blocks: tuple[Block, ...], pipelines: Mapping[str, Pipeline]) -> View:
    section = blocks[0].section
    first, norm = section.first, section.first.settings.norm
    _, height, width = first.shape
    at = (width, first.sigma) if height == width and norm == "linf" else (0, 0.0)
    drawn = ([pipelines[run.name] for run in group.runs if run.name in pipelines] for group in section.groups)
    size = f"{height}" if height == width else f"{height}×{width}"
    return View(
        place={"benchmark": first.title, "norm": norm_name(norm), "k": size, "sigma": f"{first.sigma:g}"},
        heading=section.heading,
        about=f"{norm_name(norm)} perturbations, radii in {'1/255' if norm == 'linf' else 'units'} of the pixel range; "
        f"{blocks[0].caption}; {blocks[0].judged}.",
        blocks=blocks,
        members=tuple(_member_of(group, published_text(first.kind, (*at, group.method))) for group in section.groups),
        missing=lacking(first.kind, at, {group.method for group in section.groups}),
        pipelines=tuple(sorted((found[0] for found in drawn if found), key=lambda one: -len(one.stages.rows))),
        listed=section.runs,
    )


def _member_of(group: Group, paper: str | None) -> Member:
    votes = [tally for run in group.runs if (tally := read_tally(run.path)) and tally.model == run.model]
    seconds = [taken for run in group.runs if (taken := train_seconds(run.path)) is not None]
    whole = len({(tally.images, tally.draws) for tally in votes}) == 1 and len(votes) == len(group.runs)
    return Member(
        method=group.method,
        label=group.label,
        group=group,
        votes=Spread(tuple(tally.accuracy for tally in votes)) if whole else NOT_MEASURED,
        minutes=Spread(tuple(taken / 60 for taken in seconds)),
        paper=paper or "",
    )


def _join(parts: Iterable[object]) -> str:
    return ", ".join(map(str, parts))


def choices(views: Sequence[View]) -> list[tuple[str, list[str]]]:
    """The controls: a name and its values, where the views differ in it."""

    def key(value: str) -> tuple[float, str]:
        try:
            return float(value), ""
        except ValueError:
            return 0.0, value

    names = dict.fromkeys(name for view in views for name in view.place)
    return [(name, sorted({view.place[name] for view in views}, key=key)) for name in names]


def opening(views: Sequence[View]) -> View:
    """The view that the page opens with: most methods that the paper has there, then most methods, largest k and σ."""

    def weight(view: View) -> tuple[int, int, str, float]:
        certified = [member for member in view.members if member.group]
        paper = sum(bool(member.paper) for member in certified)
        return paper, len(certified), view.place["k"].rjust(9), float(view.place["sigma"])

    return max(views, key=weight)
