"""What keeps rows that stand side by side from being compared: another alpha, other draws, other test images."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ars.report.archive.entries import Entry
from ars.report.archive.sheet import Sheet
from ars.report.inputs import alike

MARK = "‡"
"""Beside the number of images of a row that answered for others than most rows of its benchmark and k."""


def whose(values: Iterable[tuple[Entry, str]]) -> str:
    """The value that most entries have, then every other one with whose it is: '0.05, but 0.4 for static mask'."""
    pairs = list(values)
    sets = alike(pairs, lambda one, other: one[1] == other[1])
    every = [entry for entry, _ in pairs]
    others = (f"{some[0][1]} for {_named([entry for entry, _ in some], every)}" for some in sets[1:])
    return ", but ".join(part for part in (sets[0][0][1], ", ".join(others)) if part) if sets else ""


def alphas(entries: Sequence[Entry]) -> str:
    """The alpha of the certified entries, and whose it is where they differ; empty where none is certified."""
    return whose((entry, entry.alpha) for entry in entries if entry.alpha)


def several_alphas(entries: Iterable[Entry]) -> bool:
    """Whether the certified entries differ in alpha."""
    return len({entry.alpha for entry in entries if entry.alpha}) > 1


def other_images(entries: Iterable[Entry], *, certified: bool = True) -> list[str]:
    """A sentence for every set of entries that answered for other test images than the rest of a benchmark and k.

    Where nothing was certified, as of votes, the whole test set is meant.
    """
    every = list(entries)
    return [
        f"Not the same images: {_named(some, every)} answered for other test images than the other rows of "
        f"{some[0].first.benchmark} at k = {some[0].first.k}."
        for some in _apart(every, certified=certified)
    ]


def marked(sheet: Sheet, *, certified: bool = True) -> Sheet:
    """The table with a mark beside the number of images of the rows that answered for others."""
    place = next((number for number, column in enumerate(sheet.columns) if column.name == "images"), None)
    shown = [line.entry for line in sheet.lines if line.entry]
    apart = {id(entry) for some in _apart(shown, certified=certified) for entry in some}
    if place is None or not apart:
        return sheet
    lines = []
    for line in sheet.lines:
        values = list(line.values)
        if id(line.entry) in apart and values[place] is not None:
            values[place] = f"{values[place]} {MARK}"
        lines.append(replace(line, values=tuple(values)))
    return replace(sheet, lines=tuple(lines))


def _apart(entries: Iterable[Entry], *, certified: bool) -> list[list[Entry]]:
    """Of every benchmark and k, the sets of entries with the same images, without the largest."""
    once = {id(entry): entry for entry in entries}.values()
    ordered = sorted(once, key=_benchmark)
    return [
        some
        for _, group in groupby(ordered, key=_benchmark)
        for some in alike(group, lambda one, other: one.same_images(other, certified=certified))[1:]
    ]


def _benchmark(entry: Entry) -> tuple[str, int]:
    return entry.first.kind, entry.first.k


def _named(some: Sequence[Entry], among: Sequence[Entry]) -> str:
    """Some rows by what tells them from the others: the method, and k, sigma and recipe where these are several.

    A setting whose methods are all meant is named without them.
    """
    settings = {_setting(entry) for entry in among}
    recipes = {entry.first.recipe_name for entry in among}
    names = []
    for setting in dict.fromkeys(map(_setting, some)):
        k, sigma, recipe = setting
        there, mine = ([entry for entry in them if _setting(entry) == setting] for them in (among, some))
        where = [f"k = {k}, σ = {sigma:g}"] if len({it[:2] for it in settings}) > 1 else []
        where += [f"recipe {recipe}"] if len(recipes) > 1 else []
        whole = bool(where) and len(mine) == len(there)
        methods = ", ".join(entry.label for entry in mine)
        names.append(", ".join(where) if whole else " at ".join([methods, *([", ".join(where)] if where else [])]))
    return " and ".join(names)


def _setting(entry: Entry) -> tuple[int, float, str]:
    return entry.first.k, entry.first.sigma, entry.first.recipe_name
