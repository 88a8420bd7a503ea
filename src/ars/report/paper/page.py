"""The page of packed results: its lineups as views, with what only such a folder has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ars.certification.bounds import Bound
from ars.names import shown
from ars.report.page import make_page
from ars.report.paper import published
from ars.report.paper.by_size import draw_by_size
from ars.report.paper.cells import Cell
from ars.report.paper.comparisons import certified_leads, pair_up, vote_leads
from ars.report.paper.entries import Entry, Lineup, at_one_sigma, entries_by_size
from ars.report.paper.masks import pictures
from ars.report.paper.notes import BACKGROUNDS, ONE_COUNT, alphas, other_images, recipe_notes, several_alphas
from ars.report.paper.sheet import Sheet
from ars.report.style import Look, Picture
from ars.report.views import Leads, Member, View
from ars.runs.paths import RECIPE
from ars.untrusted import read_text


@dataclass(frozen=True)
class Folder:
    """What a folder of packed results adds to the page; tables and figures are linked by their names."""

    title: str
    lead: str
    levels: Sequence[tuple[dict[str, str], Callable[[Mapping[str, Look]], Picture]]]
    """Accuracy against k of each recipe, benchmark and noise level: its values for the controls, and what draws it."""
    summary: str
    sheets: Sequence[Sheet]
    figures: Sequence[str]
    recipes: Sequence[tuple[str, str, str, str]]
    """Name, place on the page, path and text."""


def make_results_page(lineups: Sequence[Lineup], sheets: Sequence[Sheet], figures: Sequence[str]) -> str:
    """The whole page."""
    views = [_view(lineup) for lineup in lineups]
    cells = [cell for lineup in lineups for entry in lineup.entries for cell in entry.cells]
    by_size = map(entries_by_size, at_one_sigma(lineups))
    beside = any(member.paper for view in views for member in view.members)
    folder = Folder(
        title="Results beside the paper" if beside else "Results",
        lead="Adaptive Randomized Smoothing and its rivals" + (", next to the paper’s numbers." if beside else "."),
        levels=[(_place(entries[0].first), partial(draw_by_size, entries)) for entries in by_size if entries],
        summary=_summary(cells),
        sheets=sheets,
        figures=figures,
        recipes=[(cell.name, anchor(cell), cell.recipe, shown(read_text(cell.path / RECIPE))) for cell in cells],
    )
    return make_page(views, folder)


def _view(lineup: Lineup) -> View:
    first = lineup.first
    pairs = [(_member(entry), entry) for entry in lineup.entries]
    entries = {member.label: entry for member, entry in pairs}

    def lead(one: Member, other: Member, bound: Bound) -> Leads:
        if pair := pair_up(entries[one.label], entries[other.label]):
            return next(iter(certified_leads(*pair, bound)), None), next(iter(vote_leads(*pair)), None)
        return None, None

    masks, mask_note = pictures(lineup)
    return View(
        place=_place(first, k=f"{first.k}"),
        heading=f"{first.benchmark}, {first.k}×{first.k}, σ = {first.sigma:g}",
        about=_about(lineup),
        blocks=lineup.blocks,
        members=tuple(member for member, _ in pairs),
        notes=_notes(lineup),
        missing=published.lacking(first.kind, (first.k, first.sigma), {entry.first.method for entry in lineup.entries}),
        masks=masks,
        mask_note=mask_note,
        lead=lead,
    )


def _place(cell: Cell, **k: str) -> dict[str, str]:
    return {"benchmark": cell.benchmark, "norm": "ℓ∞", "recipe": cell.recipe_name, **k, "sigma": f"{cell.sigma:g}"}


def _member(entry: Entry) -> Member:
    return Member(
        method=entry.first.method,
        label=entry.label,
        group=entry.main,
        votes=entry.votes,
        minutes=entry.train_minutes,
        paper=published.text(entry.first.kind, entry.setting) or "",
        recipes=tuple((cell.seed, anchor(cell)) for cell in entry.cells),
    )


def anchor(cell: Cell) -> str:
    """Where on the page its recipe is."""
    return f"recipe-{'-'.join(cell.name.replace('/', ' ').split())}"  # names of folders may have spaces


def _about(lineup: Lineup) -> str:
    """What the images are, how many of them were certified, and how certain the votes are."""
    told = [f"{lineup.first.inputs}; recipe {lineup.first.recipe_name}", *(block.judged for block in lineup.blocks[:1])]
    votes = [error for entry in lineup.entries if (error := entry.vote_error) is not None]
    told += [f"standard error of a seed's vote: up to {100 * max(votes):.1f} points"] if votes else []
    told += [f"α: {alphas(lineup.entries)}"] if several_alphas(lineup.entries) else []
    return "; ".join(told) + "."


def _notes(lineup: Lineup) -> tuple[str, ...]:
    """What keeps the numbers from being compared."""
    pasted = lineup.first.kind == "cifar_backgrounds" and lineup.first.k > 32
    one_count = any(entry.first.method == "sukenik" for entry in lineup.entries) and len(lineup.blocks) > 1
    notes = [
        *([BACKGROUNDS] if pasted else []),
        *recipe_notes(lineup.entries),
        *other_images(lineup.entries),
        *([f"Under our class bounds: {ONE_COUNT}"] if one_count else []),
    ]
    return tuple(note.replace("**", "") for note in notes)


def _summary(cells: Sequence[Cell]) -> str:
    """How much was run, on what, in one sentence."""
    seconds: dict[str, float] = {}
    for cell in cells:
        device = cell.environment.get("device", "an unknown device")
        seconds[device] = seconds.get(device, 0.0) + sum(cell.seconds.values())
    took = ", ".join(
        f"{f'{spent / 3600:.1f} hours' if spent >= 7200 else f'{spent / 60:.0f} minutes'} on {device}"
        for device, spent in sorted(seconds.items())
    )
    certified, voted = sum(bool(cell.runs) for cell in cells), sum(cell.vote is not None for cell in cells)
    done = f"{len(cells)} trainings, of which {certified} were certified and {voted} voted on the whole test set"
    return f"{done}; as timed, {took}. A start that cells share counts in each of them."
