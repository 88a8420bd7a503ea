"""What must stand beside the numbers, in one place."""

from collections.abc import Iterable

from ars.certification.bounds import Bound
from ars.report.archive.entries import Entry

ACCURACIES = "Accuracies in percent, mean (standard deviation over the seeds)."
ABSTENTIONS = "An abstention counts as wrong."
NOTHING_ABSTAINS = "Nothing is certified and nothing abstains; of classes with equally many votes the first is taken."
BACKGROUNDS = (
    "**Backgrounds.** Ours are scene photographs at hand, not the paper's BG-20k, which cannot be had: at k > 32 our "
    "numbers and the paper's are on different images. k = 32 has no background."
)
CONTRADICTION = "† The paper's Table 1 and its appendix differ here; both are shown."
CLASS_BOUNDS = (
    "These are the same votes under our class bounds, which use the counts of all classes and are simultaneous at the "
    "same alpha. The paper's numbers are under Cohen et al.'s bound: this table shows what the bound adds and is no "
    "comparison with the paper."
)
FRACTIONS = (
    "The paper's standard deviations for ImageNet are as printed; they look like fractions, so that 0.009 would be 0.9 "
    "points."
)
RADII = "Radii are in 1/255 of the pixel range and cut, never rounded up."
PARTIAL = "* So far: images of these runs are still to be certified."


def title_of(bound: Bound) -> str:
    """How a title names the bound that is not the paper's."""
    return ", under our class bounds" if bound == "classes" else ""


def suffix_of(bound: Bound) -> str:
    """How a file's name names the bound that is not the paper's."""
    return "-class-bounds" if bound == "classes" else ""


def notes(entries: Iterable[Entry], bound: Bound, *more: str, abstentions: str = ABSTENTIONS) -> tuple[str, ...]:
    """The notes of a sheet with these entries."""
    shown = list(entries)
    kinds = {entry.first.kind for entry in shown}
    return (
        *([CLASS_BOUNDS] if bound == "classes" else []),
        f"{ACCURACIES} {abstentions}",
        *more,
        *([BACKGROUNDS] if "cifar_backgrounds" in kinds else []),
        *([PARTIAL] if any(entry.missing for entry in shown) else []),
    )
