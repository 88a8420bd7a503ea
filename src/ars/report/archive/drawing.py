"""All figures of the results, each with the files that it was made from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ars.certification.run_folder import MAIN, MASKS, RECIPE
from ars.report.archive.by_size import draw_by_size
from ars.report.archive.entries import Entry, View
from ars.report.archive.masks import draw_masks, load_masks
from ars.report.curves import draw_curves
from ars.report.pipeline import draw_pipeline, load_stages


@dataclass(frozen=True)
class Drawn:
    """A figure by its file name, and its sources."""

    name: str
    svg: bytes
    sources: tuple[Path, ...]


def draw_all(views: Sequence[View]) -> Iterator[Drawn]:
    """Curves of every setting and bound, one draw taken apart, accuracy against k and masks of every noise level."""
    for view in views:
        for block in view.blocks:
            suffix = "" if block.headline else "-class-bounds"
            picture = draw_curves([[block]], origin=_origin(view))
            yield Drawn(f"curves-{view.name}{suffix}.svg", picture.svg, view.sources)
        yield from _pipeline(view)
    for levels in at_one_sigma(views):
        yield from _across_sizes(levels)


def _pipeline(view: View) -> Iterator[Drawn]:
    """One draw taken apart, where it was packed: the images of most benchmarks may not be shown."""
    cell = view.masked
    run = cell.runs.get(MAIN) if cell else None
    if cell and run and run.stages:
        picture = draw_pipeline(run, load_stages(run))
        yield Drawn(f"pipeline-{view.name}.svg", picture.svg, (*cell.sources, run.stages))


def at_one_sigma(views: Sequence[View]) -> list[tuple[View, ...]]:
    """The views of each recipe and benchmark at each noise level, by k."""
    ordered = sorted(views, key=lambda view: (*_level(view), view.first.k))
    return [tuple(group) for _, group in groupby(ordered, key=_level)]


def _across_sizes(views: tuple[View, ...]) -> Iterator[Drawn]:
    first = views[0].first
    name = f"{first.recipe_name}-{first.kind}-s{first.sigma:g}.svg"
    entries: list[Entry] = [entry for view in views for entry in view.entries]
    if len(views) > 1 and any(entry.images for entry in entries):
        sources = tuple(path for view in views for path in view.sources)
        yield Drawn(f"accuracy-by-k-{name}", draw_by_size(entries).svg, sources)
    masked = [(cell, view.static) for view in views if (cell := view.masked)]
    if masked:
        cells = [cell for pair in masked for cell in pair if cell]
        sources = tuple(path for cell in cells for path in (cell.path / MASKS, cell.path / RECIPE))
        rows = [(load_masks(cell), load_masks(static) if static else None) for cell, static in masked]
        yield Drawn(f"masks-{name}", draw_masks(rows).svg, sources)


def _origin(view: View) -> str:
    return f"recipe {view.first.recipe_name}" + (", not BG-20k" if "not BG-20k" in view.first.inputs else "")


def _level(view: View) -> tuple[str, str, float]:
    return view.first.recipe_name, view.first.kind, view.first.sigma
