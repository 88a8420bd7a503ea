"""What keeps numbers that stand side by side from being compared: another alpha, other images, draws or epochs."""

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


def draws_by_size(entries: Sequence[Entry]) -> str:
    """How many draws per image were made, where sizes differ in it: '10,000 at k = 32; 50,000 at k = 64'."""
    return _by_size([entry for entry in entries if entry.images], lambda entry: entry.draws)


def epochs_by_size(entries: Sequence[Entry]) -> str:
    """How long training was, where sizes differ in it; a sum begins with what came before, on smaller images."""
    return _by_size(entries, lambda entry: epochs_of(entry.first))


def epochs_of(cell: Cell) -> str | None:
    """The epochs of a cell's training as its recipe says, those of its start first: '24 + 24'."""
    return " + ".join(map(str, _epochs(cell))) or None


def total_epochs(cell: Cell) -> int:
    """How many epochs these are together; 0 where the recipe does not say."""
    return sum(_epochs(cell))


def _epochs(cell: Cell) -> list[int]:
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
        if (text := value(entry)) is not None:
            found.setdefault(entry.first.k, set()).add(text)
    sizes: dict[str, list[int]] = {}
    for k in sorted(found):
        sizes.setdefault(" or ".join(sorted(found[k])), []).append(k)
    return "; ".join(f"{text} at k = {_listed(ks)}" for text, ks in sizes.items()) if len(sizes) > 1 else ""


def _listed(sizes: Sequence[int]) -> str:
    *most, last = map(str, sizes)
    return f"{', '.join(most)} and {last}" if most else last
