"""Certified accuracy: at the radii that the paper quotes, and every measure of every entry at round radii."""

from collections.abc import Sequence

from ars.certification.bounds import Bound
from ars.report.archive.comparable import marked
from ars.report.archive.entries import Entry
from ars.report.archive.notes import RADII, SECONDS, how_much, notes, suffix_of, title_of
from ars.report.archive.settings import WHERE, images_text, where
from ars.report.archive.sheet import Column, Line, Printed, Sheet, Value, difference, percent, radius_255, scaled
from ars.report.measures import Spread
from ars.report.published import published_name, published_points, recipe_method

ROUND_RADII = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # in 1/255


def quoted_points(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Certified accuracy at the radii that the paper's text quotes, of the benchmarks that were run."""
    names = {entry.first.kind: entry.first.benchmark for entry in entries}
    lines = []
    quoted = [(kind, point) for kind in names for point in published_points(kind)]
    for kind, point in quoted:
        wanted = (kind, point.sigma, recipe_method(point.method))
        found: list[Entry | None] = [
            entry for entry in entries if (entry.first.kind, entry.first.sigma, entry.first.method) == wanted
        ]
        for entry in found or [None]:
            ours = entry.certified(bound, point.radius) if entry else Spread(())
            setting = (names[kind], f"{point.sigma:g}", published_name(point.method), f"{point.radius:g}")
            values = (Printed(point.accuracy), percent(ours), difference(ours, point.accuracy), *_how(entry))
            lines.append(Line((*setting, *values), entry))
    columns = (
        Column("benchmark", "benchmark", number=False),
        Column("σ", "sigma", number=False),
        Column("method", "method", number=False),
        Column("ℓ∞ radius", "linf_radius", number=False),
        Column("paper", "paper"),
        Column("ours", "ours"),
        Column("ours − paper", "difference"),
        Column("images", "images", number=False),
        Column("α", "alpha", number=False),
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


def _how(entry: Entry | None) -> tuple[Value, Value]:
    return images_text(entry), entry.alpha if entry else None


def all_measures(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Every measure of every entry: accuracies at round radii, average radius, vote, and what it took."""
    columns = (
        *WHERE,
        Column("standard", "standard"),
        *(Column(f"≥ {radius:g}/255", f"certified_{radius:g}_255") for radius in ROUND_RADII),
        Column("average radius (/255)", "average_radius_255"),
        Column("abstained", "abstained"),
        Column("images", "images", number=False),
        Column("draws", "draws", number=False),
        Column("α", "alpha", number=False),
        Column("vote on the whole test set", "vote"),
        Column("its standard error (the largest of the seeds)", "vote_standard_error", number=False),
        Column("seconds an image", "seconds_per_image"),
        Column("training minutes", "training_minutes"),
    )
    lines = tuple(Line(_measures(entry, bound), entry) for entry in entries)
    title = f"Every measure{title_of(bound)}"
    return marked(Sheet(f"measures{suffix_of(bound)}", title, columns, lines, notes(entries, bound, RADII, SECONDS)))


def _measures(entry: Entry, bound: Bound) -> tuple[Value, ...]:
    return (
        *where(entry),
        percent(entry.certified(bound, 0.0)),
        *(percent(entry.certified(bound, radius / 255)) for radius in ROUND_RADII),
        radius_255(entry.average_radius(bound)),
        percent(entry.abstentions(bound)),
        images_text(entry),
        entry.draws,
        entry.alpha,
        percent(entry.votes),
        None if entry.vote_error is None else f"{100 * entry.vote_error:.2f}",
        scaled(entry.draw_seconds(), decimals=2),
        scaled(entry.train_minutes),
    )
