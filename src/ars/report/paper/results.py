"""results/ rebuilt: from the record files of its cells to tables, figures, the page and the manifest."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.certification.bounds import Bound
from ars.report.curves import draw_curves
from ars.report.paper.by_size import draw_by_size
from ars.report.paper.cells import load_cells
from ars.report.paper.comparisons import all_leads, appendix, at_a_glance, table_one
from ars.report.paper.entries import Entry, Lineup, at_one_sigma, entries_by_size, make_entries, make_lineups
from ars.report.paper.masks import draw_masks, load_masks, where_masks_lie
from ars.report.paper.measured import all_measures, plain_votes, quoted_points, subset_sizes, what_was_run
from ars.report.paper.page import make_results_page
from ars.report.paper.sheet import Sheet, to_csv, to_markdown
from ars.report.pipeline_figure import make_pipeline
from ars.report.writing import remove_others, write_all
from ars.runs.paths import MAIN, MASKS, RECIPE, digest_of
from ars.runs.records import ReportError
from ars.untrusted import parse_json, read_text

MANIFEST = "manifest.json"
"""Which record files every table and figure was made from, with their SHA-256."""
PAGE = "index.html"


@dataclass(frozen=True)
class Written:
    """What was made: the tables, how many cells and figures there are, and which cells have no records."""

    sheets: tuple[Sheet, ...]
    cells: int
    figures: int
    uncertified: tuple[str, ...]


def write_results(root: Path, out: Path) -> Written:
    """Write tables/, figures/, index.html and manifest.json into out, from the cells below root alone.

    All is made before anything is written; tables and figures that the manifest in out names and that are not made any
    more, as of cells that are gone, are removed. Equal cells give equal tables and an equal manifest on every machine,
    and equal figures and an equal page where matplotlib and Pillow are of the same version. Links are those of
    out = root.
    """
    if root.exists() and not root.is_dir():
        raise ReportError(f"{root} is a file; name the folder that cells were packed into")
    if out.exists() and not out.is_dir():
        raise ReportError(f"{out} is a file; choose a folder with --out")
    cells = load_cells(root)
    entries = make_entries(cells)
    lineups = make_lineups(entries)
    sheets = make_sheets(entries)
    figures = list(draw_all(lineups))
    page = make_results_page(lineups, sheets, [figure.name for figure in figures])
    contents = {PAGE: page.encode()}
    origins = {PAGE: tuple(path for lineup in lineups for path in (*lineup.sources, *lineup.masks))}
    for sheet in sheets:
        for ending, text in (("md", to_markdown(sheet)), ("csv", to_csv(sheet))):
            contents[f"tables/{sheet.name}.{ending}"] = text.encode()
            origins[f"tables/{sheet.name}.{ending}"] = sheet.sources
    for figure in figures:
        contents[f"figures/{figure.name}"] = figure.svg
        origins[f"figures/{figure.name}"] = figure.sources
    contents[MANIFEST] = make_manifest(root, origins).encode()
    earlier = read_outputs(out)
    write_all(out, contents)
    remove_others(out, earlier, written=contents)
    uncertified = tuple(cell.name for cell in cells if not cell.runs)
    return Written(tuple(sheets), len(cells), len(figures), uncertified)


def make_sheets(entries: Sequence[Entry]) -> list[Sheet]:
    """Every table that has a number of ours to show, those under our class bounds last."""
    kinds = list(dict.fromkeys(entry.first.kind for entry in entries))
    on_backgrounds = [entry for entry in entries if entry.first.kind == "cifar_backgrounds"]
    recipes = sorted({entry.first.recipe_name for entry in on_backgrounds})
    sheets = [
        what_was_run(entries),
        *(at_a_glance(entries, recipe) for recipe in recipes),
        *_bounded(entries, kinds, "cohen"),
        *(plain_votes(entries, kind) for kind in kinds),
        subset_sizes(entries),
        where_masks_lie(entries),
        *_bounded(entries, kinds, "classes"),
    ]
    return [sheet for sheet in sheets if sheet.sources]


def _bounded(entries: Sequence[Entry], kinds: Sequence[str], bound: Bound) -> list[Sheet]:
    return [
        *([table_one(entries, bound)] if "cifar_backgrounds" in kinds else []),
        *(appendix(entries, kind, bound) for kind in kinds),
        quoted_points(entries, bound),
        all_measures(entries, bound),
        all_leads(entries, bound),
    ]


@dataclass(frozen=True)
class Drawn:
    """A figure by its file name, and its sources."""

    name: str
    svg: bytes
    sources: tuple[Path, ...]


def draw_all(lineups: Sequence[Lineup]) -> Iterator[Drawn]:
    """Curves of every setting and bound, one draw taken apart, accuracy against k and masks of every noise level."""
    for lineup in lineups:
        other = ", not BG-20k" if "not BG-20k" in lineup.first.inputs else ""
        for block in lineup.blocks:
            suffix = "" if block.headline else "-class-bounds"
            picture = draw_curves([[block]], origin=f"recipe {lineup.first.recipe_name}{other}")
            yield Drawn(f"curves-{lineup.name}{suffix}.svg", picture.svg, lineup.sources)
        cell = lineup.masked
        run = cell.runs.get(MAIN) if cell else None
        if cell and run and run.stages:  # they are packed where images may be shown
            picture = make_pipeline(run).picture
            yield Drawn(f"pipeline-{lineup.name}.svg", picture.svg, (*cell.sources, run.stages))
    for levels in at_one_sigma(lineups):
        yield from _across_sizes(levels)


def _across_sizes(lineups: tuple[Lineup, ...]) -> Iterator[Drawn]:
    first = lineups[0].first
    name = f"{first.recipe_name}-{first.kind}-s{first.sigma:g}.svg"
    if entries := entries_by_size(lineups):
        sources = tuple(path for entry in entries for path in entry.sources)
        yield Drawn(f"accuracy-by-k-{name}", draw_by_size(entries).svg, sources)
    masked = [(cell, lineup.static) for lineup in lineups if (cell := lineup.masked)]
    if masked:
        cells = [cell for pair in masked for cell in pair if cell]
        sources = tuple(path for cell in cells for path in (cell.path / MASKS, cell.path / RECIPE))
        rows = [(load_masks(cell), load_masks(static) if static else None) for cell, static in masked]
        yield Drawn(f"masks-{name}", draw_masks(rows).svg, sources)


def make_manifest(root: Path, origins: Mapping[str, Sequence[Path]]) -> str:
    """The manifest's text: sources by their path below results/ with their digests, outputs with their sources."""
    names = {path: path.relative_to(root).as_posix() for paths in origins.values() for path in paths}
    content = {
        "made_by": "ars results",
        "sources": {names[path]: digest_of(path) for path in sorted(names, key=lambda path: names[path])},
        "outputs": {name: sorted({names[path] for path in origins[name]}) for name in sorted(origins)},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_outputs(folder: Path) -> list[str]:
    """The tables and figures that a folder's manifest names; none without a readable manifest."""
    try:
        content = parse_json(read_text(folder / MANIFEST))
        names = [str(name) for name in content["outputs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in names if re.fullmatch(r"(tables|figures)/[^/]+", name)]
