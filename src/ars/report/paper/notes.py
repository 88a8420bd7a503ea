"""What must stand beside the numbers, and what keeps them from being compared: another alpha, other images."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ars.certification.bounds import Bound
from ars.report.paper.entries import Entry
from ars.report.paper.sheet import Sheet
from ars.runs.run import alike

MARK = "‡"
"""Beside the number of images of a row that answered for others than most rows of its benchmark and k."""

ACCURACIES = "Accuracies in percent, mean (standard deviation over the seeds)."
ABSTENTIONS = "Certificates are for ℓ∞ perturbations; an abstention counts as wrong."
NOTHING_ABSTAINS = "Nothing is certified and nothing abstains; of classes with equally many votes the first is taken."
BACKGROUNDS = (
    "**Backgrounds.** Ours are other photographs of scenes, not the paper's BG-20k, which cannot be had: at k > 32 our "
    "numbers and the paper's are on different images. k = 32 has no background."
)
CONTRADICTION = "† The paper's Table 1 and its appendix differ here; both are shown."
CLASS_BOUNDS = (
    "These are the same votes under our class bounds, which use the counts of all classes and are simultaneous at the "
    "same alpha. The paper's numbers are under Cohen et al.'s bound and are left out here: this table shows what the "
    "bound adds."
)
ONE_COUNT = (
    "Súkeník et al.'s radius rests on the count of the leading class alone: it gains nothing from these bounds, and "
    "loses a little to their being simultaneous."
)
FRACTIONS = (
    "The paper's standard deviations for ImageNet are as printed; they look like fractions, so that 0.009 would be 0.9 "
    "points."
)
RADII = "Radii are in 1/255 of the pixel range and cut, never rounded up."
SECONDS = "Seconds an image are as timed, start-up before the first images included."
PARTIAL = "* So far: images of these runs are still to be certified."


def title_of(bound: Bound) -> str:
    """How a title names the bound that is not the paper's."""
    return ", under our class bounds" if bound == "classes" else ""


def suffix_of(bound: Bound) -> str:
    """How a file's name names the bound that is not the paper's."""
    return "-class-bounds" if bound == "classes" else ""


def how_much(run: int, settings: int, what: str) -> str:
    """How much of a published table was run, and what a dash says."""
    return (
        f"{run} of {settings} {what} were run. – stands for what was not run yet, and for what the paper does not have."
    )


def recipe_notes(entries: Iterable[Entry]) -> list[str]:
    """What a reader should know of the recipes, one sentence each."""
    cells = (cell for entry in entries for cell in entry.cells if cell.recipe_note)
    return list(dict.fromkeys(f"**Recipe {cell.recipe_name}.** {cell.recipe_note}" for cell in cells))


def notes(
    entries: Iterable[Entry],
    bound: Bound,
    *more: str,
    accuracies: str = ACCURACIES,
    abstentions: str = ABSTENTIONS,
    certified: bool = True,
) -> tuple[str, ...]:
    """The notes of a sheet with these entries, whose numbers are of certified images or of the whole test set."""
    shown = [entry for entry in entries if entry.cells]
    pasted = any(entry.first.kind == "cifar_backgrounds" and entry.first.k > 32 for entry in shown)
    return (
        *([CLASS_BOUNDS] if bound == "classes" else []),
        *([ONE_COUNT] if bound == "classes" and any(entry.first.method == "sukenik" for entry in shown) else []),
        f"{accuracies} {abstentions}",
        *more,
        *([BACKGROUNDS] if pasted else []),
        *recipe_notes(shown),
        *(f"{MARK} {sentence}" for sentence in other_images(shown, certified=certified)),
        *([PARTIAL] if any(entry.missing for entry in shown) else []),
    )


def annotated(sheet: Sheet, bound: Bound, *more: str, abstentions: str = ABSTENTIONS, certified: bool = True) -> Sheet:
    """The table with its notes, and with a mark beside the number of images of the rows that answered for others."""
    shown = [line.entry for line in sheet.lines if line.entry.cells]
    apart = {id(entry) for some in _apart(shown, certified=certified) for entry in some}
    lines = [
        replace(line, values={**line.values, "images": f"{line.values['images']} {MARK}"})
        if id(line.entry) in apart and line.values.get("images") is not None
        else line
        for line in sheet.lines
    ]
    told = notes(shown, bound, *more, abstentions=abstentions, certified=certified)
    return replace(sheet, lines=tuple(lines), notes=told)


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
