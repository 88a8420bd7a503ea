"""Cells that belong together: the seeds of a method form an entry, the methods at one setting a lineup."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from pathlib import Path

from ars.certification.bounds import Bound
from ars.report.grouping import Group, make_group, make_sections, same_training
from ars.report.measures import Spread, method_name, method_rank
from ars.report.paper.cells import Cell
from ars.report.paper.published import Setting
from ars.report.table import Block, Row, make_row, make_table
from ars.runs.paths import MAIN
from ars.runs.records import ReportError
from ars.runs.run import Inputs


@dataclass(frozen=True)
class Entry:
    """The seeds of one method at one k and sigma, trained by one recipe."""

    cells: tuple[Cell, ...]

    @property
    def first(self) -> Cell:
        """A cell that speaks for what all have in common."""
        return self.cells[0]

    @property
    def setting(self) -> Setting:
        """Where it stands in the published tables."""
        return self.first.k, self.first.sigma, self.first.method

    @property
    def label(self) -> str:
        """The method's name for a reader."""
        return method_name(self.first.method)

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that its numbers come from."""
        return tuple(path for cell in self.cells for path in cell.sources)

    @property
    def seeds(self) -> str:
        """How many seeds there are; how many of them were certified, where not all were."""
        certified = sum(MAIN in cell.runs for cell in self.cells)
        return f"{len(self.cells)}" if certified == len(self.cells) else f"{certified} of {len(self.cells)}"

    def group(self, name: str = MAIN) -> Group | None:
        """The seeds that were certified under this name; None where none was."""
        runs = [cell.runs[name] for cell in self.cells if name in cell.runs]
        return make_group(runs) if runs else None

    @cached_property
    def main(self) -> Group | None:
        """The seeds that were certified for the tables."""
        return self.group()

    def certified(self, bound: Bound, radius: float, name: str = MAIN) -> Spread:
        """The certified accuracy at a radius in pixel units; at 0, the standard accuracy."""
        group = self.group(name)
        answers = group.outcomes(bound) if group and group.has(bound) else []
        return Spread.of(one.certified_accuracy(radius) for one in answers)

    def row(self, bound: Bound) -> Row | None:
        """Its measures under a bound; None where its records have no radii under it."""
        return make_row(self.main, bound, ()) if self.main and self.main.has(bound) else None

    @property
    def images(self) -> int | None:
        """How many images were certified, the same for every seed."""
        return len(self.main.runs[0].records) if self.main else None

    @property
    def alpha(self) -> str | None:
        """The failure probability of its certificates."""
        return f"{self.main.settings.alpha}" if self.main else None

    @property
    def draws(self) -> str | None:
        """How many draws per image, and how they ended where not all were made."""
        if not self.main:
            return None
        schedule = self.main.settings.schedule
        return f"{schedule.n_max:,}" + ("" if schedule.mode == "fixed" else f" at most ({schedule.mode})")

    @property
    def missing(self) -> int:
        """Images that are still to be certified, over all seeds."""
        return sum(run.missing for run in self.main.runs) if self.main else 0

    @property
    def inputs(self) -> Inputs:
        """What determines its test inputs."""
        return self.main.runs[0].inputs if self.main else Inputs(self.first.resolved["data"])

    def same_images(self, other: "Entry", *, certified: bool = True) -> bool:
        """Whether both answered for the same images; of the whole test set where certified is not asked for."""
        if certified and self.main and other.main:
            return self.main.runs[0].same_images(other.main.runs[0])
        return self.inputs.same(other.inputs)

    @property
    def votes(self) -> Spread:
        """The vote's accuracy on the whole test set."""
        return Spread(tuple(cell.vote.accuracy for cell in self.cells if cell.vote))

    @property
    def standard_error(self) -> float | None:
        """The standard error of one seed's standard accuracy, from its certified images; the largest of the seeds'."""
        row = self.row("cohen")
        return row.standard_error if row else None

    @property
    def vote_error(self) -> float | None:
        """The standard error of one seed's vote accuracy, from the number of test images; the largest of the seeds'."""
        return max((cell.vote.standard_error for cell in self.cells if cell.vote), default=None)

    @property
    def train_minutes(self) -> Spread:
        """Minutes of training of a seed."""
        seconds = (cell.seconds.get("train_seconds") for cell in self.cells)
        return Spread(tuple(value / 60 for value in seconds if value is not None))


NOT_RUN = Entry(())
"""What stands where the paper has a setting and we do not: it has no measures."""


@dataclass(frozen=True)
class Lineup:
    """All methods at one k and sigma, trained by one recipe."""

    entries: tuple[Entry, ...]

    @property
    def first(self) -> Cell:
        """A cell that speaks for what all have in common."""
        return self.entries[0].first

    @property
    def name(self) -> str:
        """The lineup's name in files and links."""
        return f"{self.first.recipe_name}-{self.first.kind}-k{self.first.k}-s{self.first.sigma:g}"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that its numbers come from."""
        return tuple(path for entry in self.entries for path in entry.sources)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The measures of the certified methods, one block per bound, the chosen bound first."""
        groups = [entry.main for entry in self.entries if entry.main]
        return make_table(make_sections(run for group in groups for run in group.runs)).blocks if groups else ()

    @property
    def _cells_with_masks(self) -> list[Cell]:
        return [cell for entry in self.entries for cell in entry.cells if cell.masks]

    @property
    def masked(self) -> Cell | None:
        """The first seed of ARS with masks, else the first cell of any method that has some."""
        found = self._cells_with_masks
        return next((cell for cell in found if cell.method == "adaptive"), found[0] if found else None)

    @property
    def static(self) -> Cell | None:
        """The first seed of the static mask that has its mask, to stand beside masks of another method."""
        found = next((cell for cell in self._cells_with_masks if cell.method == "static_mask"), None)
        return None if found is self.masked else found

    @property
    def masks(self) -> tuple[Path, ...]:
        """The files of the masks that are shown: of ARS, and the static one beside them."""
        return tuple(cell.masks for cell in (self.masked, self.static) if cell and cell.masks)


def make_entries(cells: Iterable[Cell]) -> list[Entry]:
    """Sort cells by benchmark, size, noise, recipe and method; refuses to take different trainings together."""
    ordered = sorted(cells, key=lambda cell: (*_entry_key(cell), cell.seed))
    entries = [Entry(tuple(group)) for _, group in groupby(ordered, key=_entry_key)]
    for one, other in (pair for entry in entries for pair in combinations(entry.cells, 2)):
        if one.seed == other.seed:
            raise ReportError(f"{one.name} and {other.name} are the same seed; remove one of them")
        if not same_training(one.resolved, other.resolved):
            advice = "give their sweep files different recipe_names and pack them again"
            if one.path.parent == other.path.parent:  # which has one sweep file, whatever both were packed from
                advice = "remove one of them, and pack it from a sweep file of another name and recipe_name"
            raise ReportError(
                f"{one.name} and {other.name} are called seeds of one recipe, {one.recipe_name}, but were trained "
                f"differently; {advice}"
            )
        _check_same_images(one, other)
    return entries


def _check_same_images(one: Cell, other: Cell) -> None:
    """A mean over seeds that answered for different images would be of none of the two sets."""
    mine, theirs = one.runs.get(MAIN), other.runs.get(MAIN)
    if mine and theirs and not mine.same_images(theirs):
        raise ReportError(
            f"{one.name} and {other.name} are seeds of one row but were certified on different test images, "
            f"{len(mine.records)} and {len(theirs.records)} of them; certify the missing ones on the same data, "
            "and pack both again"
        )
    if one.vote and other.vote and one.vote.images != other.vote.images:
        raise ReportError(
            f"{one.name} and {other.name} are seeds of one row but voted on {one.vote.images} and {other.vote.images} "
            "test images; vote on the whole test set of both (ars vote RUN) and pack them again"
        )


def make_lineups(entries: Sequence[Entry]) -> list[Lineup]:
    """The entries of each recipe and setting."""
    ordered = sorted(entries, key=lambda entry: (entry.first.recipe_name, _entry_key(entry.first)))
    by_lineup = groupby(ordered, key=lambda entry: (entry.first.recipe_name, _entry_key(entry.first)[:3]))
    return [Lineup(tuple(group)) for _, group in by_lineup]


def _entry_key(cell: Cell) -> tuple[object, ...]:
    return cell.kind, cell.k, cell.sigma, cell.recipe_name, method_rank(cell.method)


def at_one_sigma(lineups: Sequence[Lineup]) -> list[tuple[Lineup, ...]]:
    """The lineups of each recipe and benchmark at each noise level, by k."""

    def level(lineup: Lineup) -> tuple[str, str, float]:
        return lineup.first.recipe_name, lineup.first.kind, lineup.first.sigma

    ordered = sorted(lineups, key=lambda lineup: (*level(lineup), lineup.first.k))
    return [tuple(group) for _, group in groupby(ordered, key=level)]


def entries_by_size(lineups: Sequence[Lineup]) -> list[Entry]:
    """The entries of the lineups of one noise level, if these have several sizes and anything certified."""
    entries = [entry for lineup in lineups for entry in lineup.entries]
    return entries if len(lineups) > 1 and any(entry.images for entry in entries) else []
