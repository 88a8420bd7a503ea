"""Runs that belong together: seeds of one method form a group, methods on one benchmark a section."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

from ars.certification.bounds import Bound
from ars.report.errors import ReportError
from ars.report.inputs import alike
from ars.report.measures import Outcomes, norm_name, outcomes
from ars.report.results import Run, Settings, difference
from ars.report.training import same_training

METHOD_NAMES = {
    "cohen": "Cohen et al.",
    "static_mask": "static mask",
    "unicr": "UniCR",
    "sukenik": "Súkeník et al.",
    "adaptive": "ARS",
}
"""Display names, in the order of the tables."""


def method_name(method: str) -> str:
    """The name of a recipe's method for a reader; one that is not known here keeps its own."""
    return METHOD_NAMES.get(method, method)


@dataclass(frozen=True)
class Group:
    """The runs of one method at one noise level on one benchmark, one a seed.

    Where several trainings of one method stand side by side, variant counts them and the label names the first run.
    """

    runs: tuple[Run, ...]
    variant: int = 0

    @property
    def method(self) -> str:
        """The method's name in the recipes."""
        return self.runs[0].method

    @property
    def label(self) -> str:
        """The method's name for a reader."""
        return f"{method_name(self.method)} ({self.runs[0].name})" if self.variant else method_name(self.method)

    @property
    def settings(self) -> Settings:
        """How the runs were certified; only the certification's seed and a learned split may differ among them."""
        return self.runs[0].settings

    @property
    def draws(self) -> str:
        """N, the draws an image; at most so many where the certification may end earlier."""
        schedule = self.settings.schedule
        return ("" if schedule.mode == "fixed" else "≤ ") + f"{schedule.n_max:,}"

    def outcomes(self, bound: Bound) -> list[Outcomes]:
        """The answers of every run under a bound."""
        return [outcomes(run.records, bound) for run in self.runs]

    def has(self, bound: Bound) -> bool:
        """Whether every run has radii under a bound."""
        return all(bound in run.bounds for run in self.runs)


@dataclass(frozen=True)
class Section:
    """The groups that stand side by side: same benchmark, size, noise level, threat, chosen bound and grid of radii.

    They may differ in alpha, in the number of draws and in the images, which is then said beside them.
    """

    groups: tuple[Group, ...]

    @property
    def first(self) -> Run:
        """A run that speaks for what all have in common."""
        return self.groups[0].runs[0]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, group by group."""
        return tuple(run for group in self.groups for run in group.runs)

    @property
    def heading(self) -> str:
        """The benchmark, the size of its images, the noise level and the norm of the certificates."""
        _, height, width = self.first.shape
        size = "" if f"k = {height}" in self.first.title else f", {height}×{width}"
        return f"{self.first.title}{size}, σ = {self.first.sigma:g}, {norm_name(self.first.settings.norm)}"

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The chosen bound, then the others under which any group has radii."""
        found = (bound for group in self.groups for bound in group.runs[0].bounds if group.has(bound))
        return tuple(dict.fromkeys((self.first.settings.bound, *found)))

    @property
    def same_images(self) -> bool:
        """Whether all runs answered for the same images."""
        return len(self.image_sets) == 1

    @cached_property
    def image_sets(self) -> list[list[Run]]:
        """The runs that answered for the same images, set by set."""
        return alike(self.runs, Run.same_images)

    @property
    def alpha(self) -> float | None:
        """The failure probability of all groups; None where they differ in it."""
        found = {group.settings.alpha for group in self.groups}
        return found.pop() if len(found) == 1 else None

    @property
    def draws(self) -> str | None:
        """N, the draws an image, of all groups; None where they differ in it."""
        found = {group.draws for group in self.groups}
        return found.pop() if len(found) == 1 else None


def make_sections(runs: Iterable[Run]) -> list[Section]:
    """Sort runs into sections by benchmark, size, threat, bound, grid and noise level, and into groups by method.

    Methods that the paper does not have come last, as they are given.
    """
    runs = list(runs)
    order = dict.fromkeys((*METHOD_NAMES, *(run.method for run in runs)))
    rank = {method: number for number, method in enumerate(order)}
    ordered = sorted(runs, key=lambda run: (_section_key(run), rank[run.method], run.seed))
    return [
        Section(tuple(group for _, own in groupby(section, key=lambda run: run.method) for group in _trainings(own)))
        for _, section in groupby(ordered, key=_section_key)
    ]


def _trainings(runs: Iterable[Run]) -> list[Group]:
    """The runs of one method by how they were trained: only seeds of one training are averaged.

    A model that was not trained here has no seeds: others of its name are other trainings.
    """
    kinds: list[list[Run]] = []
    for run in runs:
        like = next((kind for kind in kinds if _same_training(kind[0], run)), None)
        kinds.append([run]) if like is None else like.append(run)
    groups = [make_group(kind) for kind in kinds]
    several = len(groups) > 1
    return [replace(group, variant=number) for number, group in enumerate(groups, start=1)] if several else groups


def _same_training(one: Run, other: Run) -> bool:
    given = "model" in one.recipe or "model" in other.recipe
    return same_training(one.recipe, other.recipe) and not (given and one.model != other.model)


def _section_key(run: Run) -> tuple[object, ...]:
    settings = run.settings
    return run.title, settings.dim, run.shape, settings.norm, settings.bound, settings.schedule.radii, run.sigma


def method_rank(method: str) -> tuple[int, str]:
    """Sorts methods in the order of the tables, unknown ones last."""
    known = list(METHOD_NAMES)
    return (known.index(method) if method in known else len(known), method)


def make_group(runs: Sequence[Run]) -> Group:
    """The seeds of one method, in their order; refuses a seed twice and runs that were certified differently."""
    first = runs[0]
    for run in runs[1:]:
        # each seed learns a split of its own of the one budget
        own = first.settings.sigmas if first.learned_split and run.learned_split else run.settings.sigmas
        differing = difference(first.settings, replace(run.settings, seed=first.settings.seed, sigmas=own))
        if differing:
            raise ReportError(
                f"{first.name} and {run.name} would be averaged but differ in {differing}; report them apart"
            )
    for earlier, run in pairwise(runs):
        if earlier.seed == run.seed:
            raise ReportError(
                f"{earlier.name} and {run.name} are both seed {run.seed} of {run.method} at sigma {run.sigma:g}; "
                "report one of them"
            )
    return Group(tuple(runs))
