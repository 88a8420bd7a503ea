"""The accuracy of the plain vote on the whole test set, and what the number of certified images does at k = 32."""

from collections.abc import Sequence

from ars.certification.run_folder import MAIN
from ars.report.archive.entries import Entry
from ars.report.archive.notes import NOTHING_ABSTAINS, notes
from ars.report.archive.settings import (
    COLUMNS,
    benchmark_of,
    entries_of,
    in_order,
    published_settings,
    published_value,
    setting_of,
    texts,
)
from ars.report.archive.sheet import Column, Line, Printed, Sheet, difference, percent
from ars.report.measures import Spread
from ars.report.published import published_name, published_subsets, recipe_method

UNCERTIFIED = "uncertified"


def plain_votes(entries: Sequence[Entry], kind: str) -> Sheet:
    """The vote's accuracy, beside the paper's where it has one (ImageNet)."""
    published = published_settings(kind, UNCERTIFIED)
    settings = published | {setting_of(one) for one in entries if one.first.kind == kind}
    lines = []
    for setting in in_order(settings):
        for entry in entries_of(entries, kind, setting):
            votes = [cell.vote for cell in entry.cells if cell.vote] if entry else []
            values = (
                published_value(kind, setting, UNCERTIFIED),
                percent(Spread(tuple(vote.accuracy for vote in votes))),
                f"{100 * entry.vote_error:.2f}" if entry and entry.vote_error is not None else None,
                min(vote.images for vote in votes) if votes else None,
                min(vote.draws for vote in votes) if votes else None,
            )
            lines.append(Line((*texts(setting), *values), entry))
    columns = (
        Column("paper", "paper"),
        Column("ours" if published else "accuracy", "ours"),
        Column("standard error of a seed (the largest)", "standard_error", number=False),
        Column("test images", "images", number=False),
        Column("draws", "draws", number=False),
    )
    sheet = Sheet(
        f"vote-{kind.replace('_', '-')}",
        f"Accuracy of the plain vote on the whole test set, without certification: {benchmark_of(entries, kind)}",
        (*COLUMNS, *columns),
        tuple(lines),
        notes([line.entry for line in lines if line.entry], "cohen", abstentions=NOTHING_ABSTAINS),
    )
    return sheet if published else sheet.without("paper")


def subset_sizes(entries: Sequence[Entry]) -> Sheet:
    """How the number of certified test images moves the standard accuracy at k = 32, beside the paper's."""
    lines = []
    for row in published_subsets():
        setting = (f"{row.sigma:g}", row.images, published_name(row.method), Printed(row.accuracy, row.std))
        found = entries_of(entries, "cifar_backgrounds", (32, row.sigma, recipe_method(row.method)))
        named = [(entry, _certification_of(entry, row.images)) for entry in found if entry]
        ours: list[tuple[Entry | None, Spread]] = [
            (entry, entry.certified("cohen", 0.0, name)) for entry, name in named if name
        ]
        for entry, spread in ours or [(None, Spread(()))]:
            lines.append(Line((*setting, percent(spread), difference(spread, row.accuracy)), entry))
    columns = (
        Column("σ", "sigma", number=False),
        Column("test images", "images", number=False),
        Column("method", "method", number=False),
        Column("paper", "paper"),
        Column("ours", "ours"),
        Column("ours − paper", "difference"),
    )
    about = "The paper's 200 images are every 50th of the test set; a row of ours has as many certified images."
    shown = [line.entry for line in lines if line.entry]
    title = "Standard accuracy at k = 32 by the number of test images"
    return Sheet("k32-subset-sizes", title, columns, tuple(lines), notes(shown, "cohen", about))


def _certification_of(entry: Entry, images: int) -> str | None:
    """The certification whose every seed has so many images, the main one first."""
    names = [MAIN, *sorted({name for cell in entry.cells for name in cell.runs} - {MAIN})]
    groups = ((name, entry.group(name)) for name in names)
    return next(
        (name for name, group in groups if group and all(len(run.records) == images for run in group.runs)), None
    )
