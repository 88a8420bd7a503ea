"""The results page: one HTML file with style, script, charts and masks in it, that fetches nothing."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ars.certification.run_folder import MASK_DRAWS, RECIPE
from ars.certification.schedule import radius_name
from ars.report.archive import charts
from ars.report.archive.by_size import Trend, make_trends, vote_trends
from ars.report.archive.cells import Cell
from ars.report.archive.comparable import alphas, other_images, several_alphas
from ars.report.archive.differences import draws_by_size, epochs_by_size
from ars.report.archive.drawing import at_one_sigma
from ars.report.archive.entries import Entry, View
from ars.report.archive.leads import Pair, make_pairs
from ars.report.archive.masks import MOST, Masks, load_masks
from ars.report.archive.notes import BACKGROUNDS, ONE_COUNT, recipe_notes
from ars.report.archive.settings import how_certified, published_settings, published_text, setting_of
from ars.report.archive.sheet import DASH, Ahead, Sheet, percent, radius_255, scaled
from ars.report.groups import method_name, method_rank
from ars.report.table import BOUND_NAMES, Block
from ars.report.templates import page_environment


@dataclass(frozen=True)
class Shown:
    """A mask as a picture, its largest weight, and the outline of its object in percent of the side, where known."""

    label: str
    alt: str
    most: float
    source: str
    outline: str = ""


@dataclass(frozen=True)
class Level:
    """Accuracy against k of one recipe and benchmark at one noise level; votes may be none."""

    first: Cell
    trends: Sequence[Trend]
    votes: Sequence[Trend]
    draws: str
    """Draws an image by k, where they differ."""
    epochs: str
    """Epochs of training by k, where they differ."""
    alphas: str
    """Whose alpha is which, where they differ."""
    images: list[str]
    """Who answered for other images than the rest."""
    inputs: list[str]
    """Who voted on other images than the rest."""


def make_results_page(views: Sequence[View], sheets: Sequence[Sheet], figures: Sequence[str]) -> str:
    """The whole page; sheets and figures are linked by their names."""
    environment = page_environment()
    environment.globals.update(
        headers=headers,
        cells=cells,
        chart=charts.curve_chart,
        trend_chart=charts.trend_chart,
        how=how,
        other_images=other_images,
        anchor=anchor,
        anchors=anchors,
        lacking=lacking,
        leads=leads,
        masks=_masks,
        published=_published,
        bound_names=BOUND_NAMES,
        box=charts,
    )
    template = environment.from_string(_read("page.html.j2"))
    return template.render(
        views=views, choices=choices(views), opening=opening(views), levels=_levels(views), sheets=sheets,
        figures=figures, runs=next(sheet for sheet in sheets if sheet.name == "runs"), dash=DASH,
        cells_text=_summary(views),
        bounds=list(dict.fromkeys(block.bound for view in views for block in view.blocks)) or ["cohen"],
        backgrounds=BACKGROUNDS.replace("**", "") if _on_backgrounds(views) else "",
        recipe_notes=lambda view: [note.replace("**", "") for note in recipe_notes(view.entries)],
        beside_paper=any(_published(view) for view in views), style=_read("page.css"), script=_read("page.js"),
        recipes=[(cell, (cell.path / RECIPE).read_text(encoding="utf-8")) for cell in _every(views)],
        one_count=ONE_COUNT, mask_draws=MASK_DRAWS,
    )  # fmt: skip


def choices(views: Sequence[View]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The controls: a name for the URL, a legend, and the values with their texts."""
    first = [view.first for view in views]
    benchmarks = sorted({(cell.kind, cell.benchmark) for cell in first})
    return [
        ("benchmark", "Benchmark", benchmarks),
        ("recipe", "Recipe", [(name, name) for name in sorted({cell.recipe_name for cell in first})]),
        ("k", "Side of the image, k", [(str(k), str(k)) for k in sorted({cell.k for cell in first})]),
        ("sigma", "Noise, σ", [(f"{s:g}", f"{s:g}") for s in sorted({cell.sigma for cell in first})]),
    ]


def opening(views: Sequence[View]) -> dict[str, str]:
    """The values that the controls begin with: of the views with the most of the main methods, the largest k and σ."""
    main = {"cohen", "static_mask", "adaptive"}

    def weight(view: View) -> tuple[int, int, float]:
        return len(main & {entry.first.method for entry in view.entries}), view.first.k, view.first.sigma

    cell = max(views, key=weight).first
    return {"benchmark": cell.kind, "recipe": cell.recipe_name, "k": str(cell.k), "sigma": f"{cell.sigma:g}"}


def headers(view: View, block: Block, *, paper: bool) -> list[str]:
    """The column names of a view's table, with the paper's numbers or without; alpha where the methods differ in it."""
    alpha = ["α"] if several_alphas(view.entries) else []
    certified = [f"≥ {radius_name(radius)}/255" for radius in block.radii]
    costs = ["vote, all test images", "s / image", "training min"]
    return ["standard", *(["paper"] if paper else []), *certified, "average radius (/255)", "abstained", *alpha, *costs]


def cells(view: View, entry: Entry, block: Block, *, paper: bool) -> list[str]:
    """The texts of an entry's row; a dash for what is not there."""
    certified = [percent(entry.certified(block.bound, radius / 255)) for radius in (0.0, *block.radii)]
    average = radius_255(entry.average_radius(block.bound))
    abstained = percent(entry.abstentions(block.bound))
    costs = (scaled(entry.draw_seconds(), decimals=2), scaled(entry.train_minutes))
    alpha = [entry.alpha] if several_alphas(view.entries) else []
    values = (*certified, average, abstained, *alpha, percent(entry.votes), *costs)
    standard, *others = (DASH if value is None else str(value) for value in values)
    published = [published_text(entry.first.kind, setting_of(entry)) or DASH] if paper else []
    return [standard, *published, *others]


def how(view: View) -> str:
    """How the view was certified, and the standard errors that the number of test images leaves."""
    told = how_certified(view.entries)
    errors = [error for entry in view.entries if (error := entry.standard_error) is not None]
    votes = [error for entry in view.entries if (error := entry.vote_error) is not None]
    told += [f"standard error of a seed's standard accuracy: up to {100 * max(errors):.1f} points"] if errors else []
    told += [f"of its vote: up to {100 * max(votes):.1f}"] if votes else []
    return "; ".join(told)


def lacking(view: View) -> list[str]:
    """Methods that the paper has at a view's k and sigma and we do not, or not yet."""
    at, have = (view.first.k, view.first.sigma), {entry.first.method for entry in view.entries}
    published = {method for *setting, method in published_settings(view.first.kind, "main") if tuple(setting) == at}
    return [method_name(method) for method in sorted(published - have, key=method_rank)]


def leads(view: View, block: Block) -> list[tuple[Pair, str, str]]:
    """How far ARS is ahead of each other method, certified and in the vote; a dash for what is not there."""
    pairs = [pair for pair in make_pairs(view) if pair.one.first.method == "adaptive"]
    found = [(pair, pair.standard(block.bound), pair.vote) for pair in pairs]
    return [
        (pair, str(Ahead(standard[0])) if standard else DASH, str(Ahead(vote[0])) if vote else DASH)
        for pair, standard, vote in found
        if standard or vote
    ]


def anchor(cell: Cell) -> str:
    """Where on the page its recipe is."""
    return f"recipe-{'-'.join(cell.name.replace('/', ' ').split())}"  # names of folders may have spaces


def anchors(*entries: Entry) -> str:
    """Where all recipes of some entries are."""
    return " ".join(anchor(cell) for entry in entries for cell in entry.cells)


def _every(views: Sequence[View]) -> list[Cell]:
    return [cell for view in views for entry in view.entries for cell in entry.cells]


def _published(view: View) -> str:
    """The paper's numbers of a view; empty where it has none."""
    texts = (published_text(entry.first.kind, setting_of(entry)) for entry in view.entries)
    return " ".join(text for text in texts if text)


def _levels(views: Sequence[View]) -> list[Level]:
    levels = []
    for group in at_one_sigma(views):
        entries = [entry for view in group for entry in view.entries]
        trends, votes = make_trends(entries), vote_trends(entries)
        if len(group) > 1 and any(trend.ours for trend in trends):
            several = alphas(entries) if several_alphas(entries) else ""
            unlike = other_images(entries), other_images(entries, certified=False)
            draws, epochs = draws_by_size(entries), epochs_by_size(entries)
            levels.append(Level(group[0].first, trends, votes, draws, epochs, several, *unlike))
    return levels


def _masks(view: View) -> list[Shown]:
    if view.masked is None:
        return []
    masks = load_masks(view.masked)
    shown = [_show(masks, number) for number in range(min(MOST, len(masks.masks)))]
    if view.static is None:
        return shown
    one = load_masks(view.static)  # the same for all images
    return [*shown, Shown("static mask", "The static mask", float(one.largest[0]), _source(one.masks[0]))]


def _show(masks: Masks, number: int) -> Shown:
    index = int(masks.indices[number])
    shown = Shown(
        f"image {index}", f"Mask of test image {index}", float(masks.largest[number]), _source(masks.masks[number])
    )
    if masks.boxes is None:
        return shown
    top, left, height, width = (f"{100 * int(side) / masks.cell.k:.4g}%" for side in masks.boxes[number])
    return replace(shown, outline=f"top:{top};left:{left};height:{height};width:{width}")


def _source(mask: NDArray[np.uint8]) -> str:
    from PIL import Image

    picture = io.BytesIO()
    Image.fromarray(mask).save(picture, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}"


def _summary(views: Sequence[View]) -> str:
    """How much was run, on what, in one sentence."""
    every = _every(views)
    seconds: dict[str, float] = {}
    for cell in every:
        device = cell.environment.get("device", "an unknown device")
        seconds[device] = seconds.get(device, 0.0) + sum(cell.seconds.values())
    took = ", ".join(f"{_time(spent)} on {device}" for device, spent in sorted(seconds.items()))
    certified, voted = sum(bool(cell.runs) for cell in every), sum(cell.vote is not None for cell in every)
    done = f"{len(every)} trainings, of which {certified} were certified and {voted} voted on the whole test set"
    return f"{done}; as timed, {took}. A start that cells share counts in each of them."


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.0f} minutes"


def _on_backgrounds(views: Sequence[View]) -> bool:
    return any(kind == "cifar_backgrounds" for kind, _ in groupby(views, key=lambda view: view.first.kind))


def _read(name: str) -> str:
    return (files("ars.report.archive") / name).read_text(encoding="utf-8")
