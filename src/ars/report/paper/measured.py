"""Every measure of every entry, accuracies at the radii and numbers of images that the paper has, and what was run."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from ars.certification.bounds import Bound
from ars.report.measures import method_name, method_rank
from ars.report.paper import published
from ars.report.paper.cells import Cell
from ars.report.paper.comparisons import KIND, benchmark_of, entries_of, texts
from ars.report.paper.entries import NOT_RUN, Entry
from ars.report.paper.notes import NOTHING_ABSTAINS, RADII, SECONDS, annotated, how_much, notes, suffix_of, title_of
from ars.report.paper.published import Printed
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
from ars.runs.paths import MAIN
from ars.runs.run import Run, Settings, alike

ROUND_RADII = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # in 1/255
UNCERTIFIED = "uncertified"
PARTS = {
    "training_minutes": "train_seconds",
    "certification_minutes": "certify_seconds",
    "vote_minutes": "vote_seconds",
}


def quoted_points(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Certified accuracy at the radii that the paper's text quotes, of the benchmarks that were run."""
    names = {entry.first.kind: entry.first.benchmark for entry in entries}
    quoted = [(kind, point) for kind in names for point in published.points(kind)]
    lines, run = [], 0
    for kind, point in quoted:
        wanted = (kind, point.sigma, published.recipe_method(point.method))
        found = [entry for entry in entries if (entry.first.kind, *entry.setting[1:]) == wanted]
        run += bool(found)
        for entry in found or ([] if bound == "classes" else [NOT_RUN]):
            ours = entry.certified(bound, point.linf_radius)
            values = {
                "benchmark": names[kind],
                "sigma": f"{point.sigma:g}",
                "method": published.name_of(point.method),
                "linf_radius": f"{point.linf_radius:g}",
                "paper": Printed(point.accuracy),
                "ours": percent(ours),
                "difference": difference(ours, point.accuracy),
                **how(entry),
            }
            lines.append(Line(values, entry))
    beside = bound == "cohen"
    columns = (
        *words(benchmark="benchmark", sigma="σ", method="method", linf_radius="ℓ∞ radius"),
        *(*(numbers(paper="paper") if beside else []), *numbers(ours="ours")),
        *(*(numbers(difference="ours − paper") if beside else []), *words(images="images", alpha="α")),
    )
    about = "Radii are in units of the pixel range, as the paper quotes them."
    title = f"Certified accuracy at the radii that the paper quotes{title_of(bound)}"
    lead = how_much(run, len(quoted), "points") if beside else ""
    return annotated(Sheet(f"quoted-radii{suffix_of(bound)}", title, columns, tuple(lines), lead=lead), bound, about)


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
    sheet = Sheet(f"measures{suffix_of(bound)}", f"Every measure{title_of(bound)}", columns, lines)
    return annotated(sheet, bound, RADII, SECONDS)


def _measures(entry: Entry, bound: Bound) -> dict[str, Value]:
    row, chosen = entry.row(bound), entry.row(entry.main.settings.bound) if entry.main else None
    return {
        **where(entry),
        "standard": percent(entry.certified(bound, 0.0)),
        **{f"certified_{radius:g}_255": percent(entry.certified(bound, radius / 255)) for radius in ROUND_RADII},
        "average_radius_255": radius_255(row.average_radius) if row else None,
        "abstained": percent(row.abstentions) if row else None,
        **how(entry),
        "vote": percent(entry.votes),
        "vote_standard_error": None if entry.vote_error is None else f"{100 * entry.vote_error:.2f}",
        "seconds_per_image": scaled(chosen.seconds, decimals=2) if chosen else None,
        "training_minutes": scaled(entry.train_minutes),
    }


def plain_votes(entries: Sequence[Entry], kind: str) -> Sheet:
    """The vote's accuracy, beside the paper's where it has one (ImageNet)."""
    printed = published.settings(kind, UNCERTIFIED)
    settings = printed | {one.setting for one in entries if one.first.kind == kind}
    lines = []
    for setting in published.in_order(settings):
        for entry in entries_of(entries, kind, setting):
            votes = [cell.vote for cell in entry.cells if cell.vote]
            values = {**texts(setting), "paper": published.value(kind, setting, UNCERTIFIED)}
            if votes:
                values |= {"ours": percent(entry.votes), "standard_error": f"{100 * (entry.vote_error or 0):.2f}"}
                values |= {"images": votes[0].images, "draws": min(vote.draws for vote in votes)}
            lines.append(Line(values, entry))
    columns = (
        *(*COLUMNS, *(numbers(paper="paper") if printed else [])),
        *numbers(ours="ours" if printed else "accuracy"),
        *words(standard_error="standard error of a seed (the largest)", images="test images", draws="draws"),
    )
    name = f"vote-{kind.replace('_', '-')}"
    title = f"Accuracy of the plain vote on the whole test set, without certification: {benchmark_of(entries, kind)}"
    sheet = Sheet(name, title, columns, tuple(lines))
    return annotated(sheet, "cohen", abstentions=NOTHING_ABSTAINS, certified=False)


def subset_sizes(entries: Sequence[Entry]) -> Sheet:
    """How the number of certified test images moves the standard accuracy at k = 32, beside the paper's."""
    lines = []
    for row in published.subsets():
        paper: dict[str, Value] = {
            "sigma": f"{row.sigma:g}",
            "images": row.test_images,
            "method": published.name_of(row.method),
            "paper": Printed(row.accuracy, row.std),
        }
        at = (32, row.sigma, published.recipe_method(row.method))
        found = [(entry, _certification_of(entry, row.test_images)) for entry in entries_of(entries, KIND, at)]
        for entry, (name, settings) in ((entry, made) for entry, made in found if made):
            spread = entry.certified("cohen", 0.0, name)
            ours = {"ours": percent(spread), "difference": difference(spread, row.accuracy)}
            lines.append(Line({**paper, **ours, "alpha": f"{settings.alpha}", "subset": settings.subset}, entry))
        if not any(made for _, made in found):
            lines.append(Line(paper))
    columns = (
        *words(sigma="σ", images="test images", method="method"),
        *numbers(paper="paper", ours="ours", difference="ours − paper"),
        *words(alpha="α", subset="which images"),
    )
    about = "The paper's 200 images are every 50th of the test set; a row of ours has as many certified images."
    shown = [line.entry for line in lines]
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
    values: dict[str, Value] = {
        "sweep": first.sweep,
        "benchmark": first.benchmark,
        "k": first.k,
        "method": method_name(first.method),
        "sigmas": sigmas,
        "cells": len(cells),
        "certified": sum(bool(cell.runs) for cell in cells),
        "voted": sum(cell.vote is not None for cell in cells),
        "device": _every("device", (cell.environment for cell in cells)),
        "certified_on": _every("device", (cell.certified_with for cell in cells)),
        "torch": _every("torch", (cell.environment for cell in cells)),
    }
    for name, part in PARTS.items():
        minutes = [cell.seconds[part] / 60 for cell in cells if part in cell.seconds]
        values[name] = number(math.fsum(minutes)) if minutes else None
    return Line(values)


def _every(name: str, environments: Iterable[dict[str, str]]) -> str | None:
    """What the environments say of this, joined; None where none says anything."""
    return ", ".join(dict.fromkeys(told[name] for told in environments if name in told)) or None


def _key(cell: Cell) -> tuple[object, ...]:
    return cell.sweep, cell.kind, cell.k, method_rank(cell.method)
