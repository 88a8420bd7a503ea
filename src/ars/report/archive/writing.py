"""results/ rebuilt: from the record files of its cells to tables, figures, the page and the manifest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ars.certification.bounds import Bound
from ars.report.archive.cells import load_cells
from ars.report.archive.certified import all_measures, quoted_points
from ars.report.archive.drawing import draw_all
from ars.report.archive.entries import Entry, make_entries, make_views
from ars.report.archive.glance import at_a_glance
from ars.report.archive.leads import all_leads
from ars.report.archive.manifest import MANIFEST, make_manifest, read_outputs
from ars.report.archive.mask_shares import where_masks_lie
from ars.report.archive.page import make_results_page
from ars.report.archive.runs import what_was_run
from ars.report.archive.sheet import Sheet, to_csv, to_markdown
from ars.report.archive.standard import appendix, table_one
from ars.report.archive.votes import plain_votes, subset_sizes
from ars.report.errors import ReportError
from ars.report.listed import remove_others
from ars.report.writing import write_all

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
    views = make_views(entries)
    sheets = make_sheets(entries)
    figures = list(draw_all(views))
    page = make_results_page(views, sheets, [figure.name for figure in figures])
    contents = {PAGE: page.encode()}
    origins = {PAGE: tuple(path for view in views for path in (*view.sources, *view.masks))}
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
