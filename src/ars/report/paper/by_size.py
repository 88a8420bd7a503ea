"""Accuracy against the image's side k at one noise level, ours beside the paper's, certified and of the plain vote."""

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ars.report.curves import uncertainty
from ars.report.measures import Spread, method_name, method_rank
from ars.report.paper.cells import Cell
from ars.report.paper.entries import Entry
from ars.report.paper.notes import alphas, other_images, several_alphas
from ars.report.paper.published import CERTIFIED, rows
from ars.report.style import MUTED, Look, Picture, looks_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ASIDE = 0.9
"""How far methods stand beside each other on the axis of k, so that no marker hides another."""
WIDTH = 4.9  # inches, so that the text can be read on a phone
LETTERS = 62
"""How many letters fit above a panel."""
JOINED = "lines join sizes that were trained equally long"


@dataclass(frozen=True)
class Trend:
    """A method's accuracy at every k that was run, its spread over seeds, and the paper's means there in percent.

    Where the paper's tables differ there are two. Epochs are those of the whole training at each k.
    """

    method: str
    ours: dict[int, Spread]
    epochs: dict[int, int]
    paper: set[tuple[int, float]] = field(default_factory=set)

    @property
    def several(self) -> bool:
        """Whether any size has several seeds, and so a bar."""
        return any(len(spread.values) > 1 for spread in self.ours.values())

    @property
    def alike(self) -> list[list[int]]:
        """The sizes in order, apart where training is longer or shorter: a line through both would show that too."""
        return [list(sizes) for _, sizes in groupby(sorted(self.ours), key=self.epochs.get)]


def make_trends(entries: Sequence[Entry]) -> list[Trend]:
    """Standard accuracies of the entries of one recipe, benchmark and sigma, under Cohen et al.'s bound."""
    kind, sigma = entries[0].first.kind, entries[0].first.sigma
    printed = [row for row in rows(kind) if row.table in CERTIFIED]  # of models that were certified
    trends = _trends(entries, lambda entry: entry.certified("cohen", 0.0))
    for trend in trends:
        at = [(k, sigma, trend.method) for k in trend.ours]
        trend.paper.update((row.k, row.accuracy) for row in printed if row.setting in at)
    return trends


def vote_trends(entries: Sequence[Entry]) -> list[Trend]:
    """Accuracies of the plain vote on the whole test set, of those entries that have one."""
    return _trends([entry for entry in entries if entry.votes.values], lambda entry: entry.votes)


def _trends(entries: Sequence[Entry], measure: Callable[[Entry], Spread]) -> list[Trend]:
    trends = []
    for method in sorted({entry.first.method for entry in entries}, key=method_rank):
        mine = [entry for entry in entries if entry.first.method == method]
        ours = {entry.first.k: spread for entry in mine if (spread := measure(entry)).values}
        trends.append(Trend(method, ours, {entry.first.k: sum(epochs_of(entry.first)) for entry in mine}))
    return trends


def draw_by_size(entries: Sequence[Entry], looks: Mapping[str, Look] | None = None) -> Picture:
    """Filled markers are ours, with bars of one standard deviation where there are seeds; hollow ones the paper's."""
    from matplotlib.figure import Figure

    first = entries[0].first
    panels = [
        ("standard accuracy (%)", make_trends(entries), [entry.standard_error for entry in entries]),
        ("vote on the whole test set (%)", vote_trends(entries), [entry.vote_error for entry in entries]),
    ]
    shown = [(label, trends, _about(first, trends, errors)) for label, trends, errors in panels if trends]
    looks = looks or looks_of(entry.first.method for entry in entries)
    title = f"{first.benchmark}, σ = {first.sigma:g}"
    with style():
        figure = Figure(figsize=(WIDTH, 4.3 * len(shown) + 0.5), layout="constrained")
        grid = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
        for panel, (label, trends, about) in zip(grid, shown, strict=True):
            for number, trend in enumerate(trends):
                _draw_trend(panel, trend, looks[trend.method], aside=ASIDE * (number - (len(trends) - 1) / 2))
            panel.set_xticks(sorted({entry.first.k for entry in entries}))
            panel.set_xlabel("side of the image, k (pixels)")
            panel.set_ylabel(label)
            above = [*(_unlike(entries) if panel is grid[0] else ()), *about]
            panel.text(0, 1.025, "\n".join(above), transform=panel.transAxes, fontsize=9, color=MUTED)
            pad = 10 + 11 * len(above)
            panel.set_title(title if panel is grid[0] else "", loc="left", fontsize=11, fontweight="bold", pad=pad)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        below: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        figure.legend(handles, labels, fontsize=9, handlelength=2.8, **below)
        return Picture(figure, f"Accuracy against the side of the image: {title}")


def _draw_trend(panel: "Axes", trend: Trend, look: Look, aside: float) -> None:
    gap = math.nan  # where the line is broken
    means = [mean for sizes in trend.alike for mean in (*(100 * trend.ours[k].mean for k in sizes), gap)]
    spreads = [std for sizes in trend.alike for std in (*(100 * (trend.ours[k].std or 0.0) for k in sizes), gap)]
    places = [place for sizes in trend.alike for place in (*(k + aside for k in sizes), gap)]
    line: dict[str, Any] = {"color": look.colour, "linestyle": look.dashes, "linewidth": 1.9, "marker": "o"}
    bars = spreads if trend.several else None
    panel.errorbar(places, means, yerr=bars, capsize=3, markersize=5, label=method_name(trend.method), **line)
    hollow: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6.5, "markerfacecolor": "white"}
    edge: dict[str, Any] = {"markeredgecolor": look.colour, "markeredgewidth": 1.3, "zorder": 1}
    printed = sorted(trend.paper)
    panel.plot([k + aside for k, _ in printed], [accuracy for _, accuracy in printed], **hollow, **edge)


def _unlike(entries: Sequence[Entry]) -> list[str]:
    """What differs between the sizes besides k, and between the methods, as lines."""
    draws, epochs = draws_by_size(entries), epochs_by_size(entries)
    told = [f"draws per image: {draws}"] if draws else []
    told += [f"α: {alphas(entries)}"] if several_alphas(entries) else []
    told += other_images(entries)
    told += [f"epochs of training, those on smaller images first: {epochs}", JOINED] if epochs else []
    return [line for text in told for line in textwrap.wrap(text, LETTERS)]


def _about(first: Cell, trends: Sequence[Trend], errors: Sequence[float | None]) -> list[str]:
    """Whose numbers a panel shows, and how certain they are, as lines."""
    beside = "; hollow: the paper (k > 32: on other backgrounds)" if any(trend.paper for trend in trends) else ""
    known = [error for error in errors if error is not None]
    told = [f"recipe {first.recipe_name}{beside}"]
    told += [uncertainty("bars", max(known), several=any(trend.several for trend in trends))] if known else []
    return [line for text in told for line in textwrap.wrap(text, LETTERS)]


def draws_by_size(entries: Sequence[Entry]) -> str:
    """How many draws per image were made, where sizes differ in it: '10,000 at k = 32; 50,000 at k = 64'."""
    return _by_size(entries, lambda entry: entry.draws)


def epochs_by_size(entries: Sequence[Entry]) -> str:
    """How long training was, where sizes differ in it; a sum begins with what came before, on smaller images."""
    return _by_size(entries, lambda entry: " + ".join(map(str, epochs_of(entry.first))))


def epochs_of(cell: Cell) -> list[int]:
    """The epochs of a cell's training, those of its start first; empty where the recipe does not say."""
    train, start = cell.resolved.get("train") or {}, cell.resolved.get("start")
    if "epochs" not in train:
        return []
    classifier = cell.resolved.get("classifier") or {}
    trained = classifier.get("from_run") or classifier.get("factory")
    parts = [train["epochs"]]
    if start and not trained and cell.k > start["size"]:
        passed = [size for size in start.get("through") or () if size < cell.k]
        parts = [start["epochs"], *(train["epochs"] for _ in passed), *parts]
    return parts


def _by_size(entries: Sequence[Entry], value: Callable[[Entry], str | None]) -> str:
    """The values with the sizes that have them; empty where all have the same."""
    found: dict[int, set[str]] = {}
    for entry in entries:
        if text := value(entry):
            found.setdefault(entry.first.k, set()).add(text)
    sizes: dict[str, list[int]] = {}
    for k in sorted(found):
        sizes.setdefault(" or ".join(sorted(found[k])), []).append(k)
    listed = (f"{text} at k = {', '.join(map(str, ks))}" for text, ks in sizes.items())
    return "; ".join(re.sub(r", (\d+)$", r" and \1", text) for text in listed) if len(sizes) > 1 else ""
