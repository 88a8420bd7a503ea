"""Table 1 in the paper's own form, a column a method, for inclusion in a text."""

from collections.abc import Sequence

from ars.report.archive.entries import Entry
from ars.report.archive.notes import CONTRADICTION, how_much, notes
from ars.report.archive.settings import (
    COLUMNS,
    entries_of,
    how_certified,
    published_settings,
    published_text,
    setting_of,
)
from ars.report.archive.sheet import DASH, Column, Line, Sheet, percent
from ars.report.groups import method_name, method_rank

KIND = "cifar_backgrounds"


def at_a_glance(entries: Sequence[Entry], recipe: str) -> Sheet:
    """Every cell: ours with one recipe / the paper's."""
    mine = [entry for entry in entries if (entry.first.kind, entry.first.recipe_name) == (KIND, recipe)]
    settings = published_settings(KIND, "main")
    methods = sorted({method for *_, method in settings}, key=method_rank)
    lines = [
        Line((k, f"{sigma:g}", *(_cell(mine, k, sigma, method) for method in methods), _inputs(mine, k, sigma)), None)
        for k, sigma in sorted({(k, sigma) for k, sigma, _ in settings})
    ]
    ours = Column("our inputs", "inputs", number=False)
    columns = (*COLUMNS[:2], *(Column(method_name(method), method, number=False) for method in methods), ours)
    run = {setting_of(entry) for entry in mine} & settings
    about = f"Each cell: ours / the paper's. Recipe: {recipe}; [table-1.md](table-1.md) has the recipe of every number."
    return Sheet(
        f"table-1-glance-{recipe}",
        f"Table 1 at a glance: standard accuracy, ours with recipe {recipe} / the paper's",
        columns,
        tuple(lines),
        notes(mine, "cohen", about, CONTRADICTION),
        tuple(cell for entry in mine for cell in entry.cells),
        lead=f"{how_much(len(run), len(settings), 'cells')} {'; '.join(how_certified(mine))}.",
    )


def _cell(mine: Sequence[Entry], k: int, sigma: float, method: str) -> str:
    setting = (k, sigma, method)
    [entry] = entries_of(mine, KIND, setting)
    ours = percent(entry.certified("cohen", 0.0)) if entry else None
    return f"{ours or DASH} / {published_text(KIND, setting)}"


def _inputs(mine: Sequence[Entry], k: int, sigma: float) -> str | None:
    at = (k, sigma)
    return next((entry.first.inputs for entry in mine if (entry.first.k, entry.first.sigma) == at), None)
