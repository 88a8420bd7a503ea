"""Every measure of every entry, accuracies at the radii and numbers of images that the paper has, and what was run."""

import math
from collections.abc import Sequence
from itertools import groupby

from ars.certification.bounds import Bound
from ars.report.measures import Spread, method_name, method_rank
from ars.report.paper.cells import Cell
from ars.report.paper.entries import Entry
from ars.report.paper.notes import NOTHING_ABSTAINS, RADII, SECONDS, how_much, marked, notes, suffix_of, title_of
from ars.report.paper.published import (
    Printed,
    in_order,
    published_name,
    published_points,
    published_settings,
    published_subsets,
    published_value,
    recipe_method,
)
from ars.report.paper.sheet import (
    COLUMNS,
    HOW,
    WHERE,
    Line,
    Sheet,
    Value,
    difference,
    how,
    number,
    numbers,
    percent,
    radius_255,
    scaled,
    where,
    words,
)
from ars.report.paper.standard import benchmark_of, entries_of, texts
from ars.runs.paths import MAIN
from ars.runs.run import Run, Settings, alike

ROUND_RADII = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # in 1/255
UNCERTIFIED = "uncertified"
PARTS = ("train_seconds", "certify_seconds", "vote_seconds")


def quoted_points(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Certified accuracy at the radii that the paper's text quotes, of the benchmarks that were run."""
    names = {entry.first.kind: entry.first.benchmark for entry in entries}
    lines = []
    quoted = [(kind, point) for kind in names for point in published_points(kind)]
    for kind, point in quoted:
        wanted = (kind, point.sigma, recipe_method(point.method))
        setting = (names[kind], f"{point.sigma:g}", published_name(point.method), f"{point.linf_radius:g}")
        found: list[Entry | None] = [one for one in entries if (one.first.kind, *one.setting[1:]) == wanted]
        for entry in found or [None]:
            ours = entry.certified(bound, point.linf_radius) if entry else Spread()
            apart = difference(ours, point.accuracy)
            lines.append(Line((*setting, Printed(point.accuracy), percent(ours), apart, *how(entry)[::2]), entry))
    columns = (
        *words(benchmark="benchmark", sigma="σ", method="method", linf_radius="ℓ∞ radius"),
        *numbers(paper="paper", ours="ours", difference="ours − paper"),
        *HOW[::2],
    )
    shown = [line.entry for line in lines if line.entry]
    about = "Radii are in units of the pixel range, as the paper quotes them."
    title = f"Certified accuracy at the radii that the paper quotes{title_of(bound)}"
    name, told = f"quoted-radii{suffix_of(bound)}", notes(shown, bound, about)
    if bound == "classes":
        measured = tuple(line for line in lines if line.entry)
        return marked(Sheet(name, title, columns, measured, told).without("paper", "difference"))
    run = len({line.values[:4] for line in lines if line.entry})
    return marked(Sheet(name, title, columns, tuple(lines), told, lead=how_much(run, len(quoted), "points")))


def all_measures(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Every measure of every entry: accuracies at round radii, average radius, vote, and what it took."""
    columns = (
        *WHERE,
        *numbers(standard="standard", **{f"certified_{r:g}_255": f"≥ {r:g}/255" for r in ROUND_RADII}),
        *numbers(average_radius_255="average radius (/255)", abstained="abstained"),
        *HOW,
        *numbers(vote="vote on the whole test set"),
        *words(vote_standard_error="its standard error (the largest of the seeds)"),
        *numbers(seconds_per_image="seconds an image", training_minutes="training minutes"),
    )
    lines = tuple(Line(_measures(entry, bound), entry) for entry in entries)
    title = f"Every measure{title_of(bound)}"
    return marked(Sheet(f"measures{suffix_of(bound)}", title, columns, lines, notes(entries, bound, RADII, SECONDS)))


def _measures(entry: Entry, bound: Bound) -> tuple[Value, ...]:
    row, chosen = entry.row(bound), entry.row(entry.main.settings.bound) if entry.main else None
    return (
        *where(entry),
        percent(entry.certified(bound, 0.0)),
        *(percent(entry.certified(bound, radius / 255)) for radius in ROUND_RADII),
        radius_255(row.average_radius) if row else None,
        percent(row.abstentions) if row else None,
        *how(entry),
        percent(entry.votes),
        None if entry.vote_error is None else f"{100 * entry.vote_error:.2f}",
        scaled(chosen.seconds, decimals=2) if chosen else None,
        scaled(entry.train_minutes),
    )


def plain_votes(entries: Sequence[Entry], kind: str) -> Sheet:
    """The vote's accuracy, beside the paper's where it has one (ImageNet)."""
    published = published_settings(kind, UNCERTIFIED)
    settings = published | {one.setting for one in entries if one.first.kind == kind}
    lines = []
    for setting in in_order(settings):
        for entry in entries_of(entries, kind, setting):
            votes = [cell.vote for cell in entry.cells if cell.vote] if entry else []
            paper = published_value(kind, setting, UNCERTIFIED)
            ours: tuple[Value, ...] = (None, None, None, None)
            if entry and votes:
                how_many = (votes[0].images, min(vote.draws for vote in votes))
                ours = (percent(entry.votes), f"{100 * (entry.vote_error or 0):.2f}", *how_many)
            lines.append(Line((*texts(setting), paper, *ours), entry))
    columns = (
        *numbers(paper="paper", ours="ours" if published else "accuracy"),
        *words(standard_error="standard error of a seed (the largest)", images="test images", draws="draws"),
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
        setting = (f"{row.sigma:g}", row.test_images, published_name(row.method), Printed(row.accuracy, row.std))
        found = entries_of(entries, "cifar_backgrounds", (32, row.sigma, recipe_method(row.method)))
        ours = [(entry, *named) for entry in found if entry and (named := _certification_of(entry, row.test_images))]
        for entry, name, settings in ours:
            spread = entry.certified("cohen", 0.0, name)
            values = (percent(spread), difference(spread, row.accuracy), f"{settings.alpha}", settings.subset)
            lines.append(Line((*setting, *values), entry))
        if not ours:
            lines.append(Line((*setting, None, None, None, None), None))
    columns = (
        *words(sigma="σ", images="test images", method="method"),
        *numbers(paper="paper", ours="ours", difference="ours − paper"),
        *words(alpha="α", subset="which images"),
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


def what_was_run(entries: Sequence[Entry]) -> Sheet:
    """The trainings and certifications that are here, the devices and the minutes."""
    cells = sorted((cell for entry in entries for cell in entry.cells), key=_key)
    lines = [_line(tuple(group)) for _, group in groupby(cells, key=_key)]
    columns = (
        *words(sweep="sweep", benchmark="benchmark", k="k", method="method", sigmas="σ"),
        *words(cells="cells", certified="certified", voted="voted"),
        *numbers(training_minutes="training minutes", certification_minutes="certification minutes"),
        *numbers(vote_minutes="vote minutes"),
        *words(device="trained on", certified_on="certified on", torch="torch"),
    )
    notes = (
        "A cell is one training: a method, k, σ and seed. Minutes are summed over the cells, as timed.",
        "Where certified on is empty, that was not recorded yet when the cell was certified.",
        "A start that several cells share, where a recipe has one, counts in the training of each of them.",
    )
    return Sheet("runs", "What was run, on what, and how long it took", columns, tuple(lines), notes, tuple(cells))


def _line(cells: tuple[Cell, ...]) -> Line:
    first = cells[0]
    sigmas = ", ".join(f"{sigma:g}" for sigma in sorted({cell.sigma for cell in cells}))
    minutes = [[cell.seconds[part] / 60 for cell in cells if part in cell.seconds] for part in PARTS]
    values = (
        first.sweep,
        first.benchmark,
        first.k,
        method_name(first.method),
        sigmas,
        len(cells),
        sum(bool(cell.runs) for cell in cells),
        sum(cell.vote is not None for cell in cells),
        *(number(math.fsum(part)) if part else None for part in minutes),
        _every("device", [cell.environment for cell in cells]),
        _every("device", [cell.certified_with for cell in cells]),
        _every("torch", [cell.environment for cell in cells]),
    )
    return Line(values, None)


def _every(name: str, environments: Sequence[dict[str, str]]) -> str | None:
    """What the environments say of this, joined; None where none says anything."""
    found = dict.fromkeys(it[name] for it in environments if name in it)
    return ", ".join(found) or None


def _key(cell: Cell) -> tuple[object, ...]:
    return cell.sweep, cell.kind, cell.k, method_rank(cell.method)
