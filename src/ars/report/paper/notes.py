"""What must stand beside the numbers, in one place."""

from collections.abc import Iterable

from ars.certification.bounds import Bound
from ars.report.paper.comparable import MARK, other_images
from ars.report.paper.entries import Entry

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
    shown = list(entries)
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
