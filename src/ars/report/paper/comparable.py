"""What keeps numbers that stand side by side from being compared: another alpha, other images, draws or epochs."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ars.report.paper.cells import Cell
from ars.report.paper.entries import Entry
from ars.report.paper.sheet import Sheet
from ars.runs.run import alike

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

    def benchmark(entry: Entry) -> tuple[str, int]:
        return entry.first.kind, entry.first.k

    groups = (group for _, group in groupby(sorted(once, key=benchmark), key=benchmark))
    sets = (alike(group, lambda one, other: one.same_images(other, certified=certified)) for group in groups)
    return [some for every in sets for some in every[1:]]


def _named(some: Sequence[Entry], among: Sequence[Entry]) -> str:
    """Some rows by what tells them from the others: the method, and k, sigma and recipe where these are several.

    A setting whose methods are all meant is named without them.
    """

    def key(entry: Entry) -> tuple[int, float, str]:
        return entry.first.k, entry.first.sigma, entry.first.recipe_name

    several_sizes = len({key(entry)[:2] for entry in among}) > 1
    several_recipes = len({entry.first.recipe_name for entry in among}) > 1
    names = []
    for setting in dict.fromkeys(map(key, some)):
        k, sigma, recipe = setting
        there, mine = ([entry for entry in them if key(entry) == setting] for them in (among, some))
        where = [f"k = {k}, σ = {sigma:g}"] if several_sizes else []
        where += [f"recipe {recipe}"] if several_recipes else []
        methods = [", ".join(entry.label for entry in mine)] if not where or len(mine) < len(there) else []
        names.append(" at ".join([*methods, *([", ".join(where)] if where else [])]))
    return " and ".join(names)


def draws_by_size(entries: Sequence[Entry]) -> str:
    """How many draws per image were made, where sizes differ in it: '10,000 at k = 32; 50,000 at k = 64'."""
    return _by_size(entries, lambda entry: entry.draws)


def epochs_by_size(entries: Sequence[Entry]) -> str:
    """How long training was, where sizes differ in it; a sum begins with what came before, on smaller images."""
    return _by_size(entries, lambda entry: " + ".join(map(str, epochs_of(entry.first))))


def epochs_of(cell: Cell) -> list[int]:
    """The epochs of a cell's training, those of its start first; empty where the recipe does not say."""
    train, start = cell.resolved.get("train") or {}, cell.resolved.get("start")
    if "epochs" not in train:
        return []
    classifier = cell.resolved.get("classifier") or {}
    trained = classifier.get("from_run") or classifier.get("factory")
    parts = [train["epochs"]]
    if start and not trained and cell.k > start["size"]:
        passed = [size for size in start.get("through") or () if size < cell.k]
        parts = [start["epochs"], *(train["epochs"] for _ in passed), *parts]
    return parts


def _by_size(entries: Sequence[Entry], value: Callable[[Entry], str | None]) -> str:
    """The values with the sizes that have them; empty where all have the same."""
    found: dict[int, set[str]] = {}
    for entry in entries:
        if text := value(entry):
            found.setdefault(entry.first.k, set()).add(text)
    sizes: dict[str, list[int]] = {}
    for k in sorted(found):
        sizes.setdefault(" or ".join(sorted(found[k])), []).append(k)
    listed = (f"{text} at k = {', '.join(map(str, ks))}" for text, ks in sizes.items())
    return "; ".join(re.sub(r", (\d+)$", r" and \1", text) for text in listed) if len(sizes) > 1 else ""
