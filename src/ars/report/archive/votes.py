"""The accuracy of the plain vote on the whole test set, and what the number of certified images does at k = 32."""

from collections.abc import Sequence

from ars.certification.run_folder import MAIN
from ars.report.archive.comparable import marked
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
from ars.report.inputs import alike
from ars.report.measures import Spread
from ars.report.published import published_name, published_subsets, recipe_method
from ars.report.results import Run, Settings

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
                votes[0].images if votes else None,
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
        notes([line.entry for line in lines if line.entry], "cohen", abstentions=NOTHING_ABSTAINS, certified=False),
    )
    return marked(sheet if published else sheet.without("paper"), certified=False)


def subset_sizes(entries: Sequence[Entry]) -> Sheet:
    """How the number of certified test images moves the standard accuracy at k = 32, beside the paper's."""
    lines = []
    for row in published_subsets():
        setting = (f"{row.sigma:g}", row.images, published_name(row.method), Printed(row.accuracy, row.std))
        found = entries_of(entries, "cifar_backgrounds", (32, row.sigma, recipe_method(row.method)))
        ours = [(entry, *named) for entry in found if entry and (named := _certification_of(entry, row.images))]
        for entry, name, how in ours:
            spread = entry.certified("cohen", 0.0, name)
            values = (percent(spread), difference(spread, row.accuracy), f"{how.alpha}", how.subset)
            lines.append(Line((*setting, *values), entry))
        if not ours:
            lines.append(Line((*setting, None, None, None, None), None))
    columns = (
        Column("σ", "sigma", number=False),
        Column("test images", "images", number=False),
        Column("method", "method", number=False),
        Column("paper", "paper"),
        Column("ours", "ours"),
        Column("ours − paper", "difference"),
        Column("α", "alpha", number=False),
        Column("which images", "subset", number=False),
    )
    about = "The paper's 200 images are every 50th of the test set; a row of ours has as many certified images."
    shown = [line.entry for line in lines if line.entry]
    title = "Standard accuracy at k = 32 by the number of test images"
    return Sheet("k32-subset-sizes", title, columns, tuple(lines), notes(shown, "cohen", about, certified=False))


def _certification_of(entry: Entry, images: int) -> tuple[str, Settings] | None:
    """The certification whose every seed has so many images, the same for all, and how; the main one first."""
    names = [MAIN, *sorted({name for cell in entry.cells for name in cell.runs} - {MAIN})]
    for name in names:
        group = entry.group(name)
        if group and len(group.runs[0].records) == images and len(alike(group.runs, Run.same_images)) == 1:
            return name, group.settings
    return None
