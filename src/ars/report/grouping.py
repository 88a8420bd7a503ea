"""Runs that belong together: seeds of one method form a group, methods on one benchmark a section."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from ars.certification.bounds import Bound
from ars.data.settings import with_later
from ars.methods.registry import methods
from ars.report.measures import Lead, Outcomes, heading_of, method_name, outcomes, paired_lead
from ars.runs.paths import NOT_OF_WEIGHTS
from ars.runs.records import ReportError
from ars.runs.run import Run, Settings, alike, settings_difference

NOT_OF_TRAINING = {"seed", "certify", "classifier.from_run", "classifier.sha256", *NOT_OF_WEIGHTS}
"""Keys in which the seeds of a row may differ: a classifier that was trained before has a seed of its own."""


@dataclass(frozen=True)
class Group:
    """The runs of one method at one noise level on one benchmark, one per seed.

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
        """N, the draws per image; "≤" where the certification may end earlier."""
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
        return heading_of(self.first)

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
        """N, the draws per image, of all groups; None where they differ in it."""
        found = {group.draws for group in self.groups}
        return found.pop() if len(found) == 1 else None


def make_sections(runs: Iterable[Run]) -> list[Section]:
    """Sort runs into sections by benchmark, size, threat, bound, grid and noise level, and into groups by method.

    Methods that are not registered come last, in the order given.
    """
    runs = list(runs)
    order = dict.fromkeys((*methods(), *(run.method for run in runs)))
    rank = {method: number for number, method in enumerate(order)}
    ordered = sorted(runs, key=lambda run: (_section_key(run), rank[run.method], run.seed))
    return [
        Section(
            tuple(group for _, seeds in groupby(section, key=lambda run: run.method) for group in _trainings(seeds))
        )
        for _, section in groupby(ordered, key=_section_key)
    ]


def _trainings(runs: Iterable[Run]) -> list[Group]:
    """The runs of one method by how they were trained: only seeds of one training are averaged.

    A model that was not trained here has no seeds: others of its name are other trainings.
    """

    def same(one: Run, other: Run) -> bool:
        given = "model" in one.recipe or "model" in other.recipe
        return same_training(one.recipe, other.recipe) and not (given and one.model != other.model)

    kinds: list[list[Run]] = []
    for run in runs:
        like = next((kind for kind in kinds if same(kind[0], run)), None)
        kinds.append([run]) if like is None else like.append(run)
    groups = [make_group(kind) for kind in kinds]
    several = len(groups) > 1
    return [replace(group, variant=number) for number, group in enumerate(groups, start=1)] if several else groups


def _section_key(run: Run) -> tuple[object, ...]:
    settings = run.settings
    return run.title, settings.dim, run.shape, settings.norm, settings.bound, settings.schedule.radii, run.sigma


def same_training(one: object, other: object, name: str = "") -> bool:
    """Whether two recipes train alike but for the seed; a key that only one has came with a later version."""
    if name in NOT_OF_TRAINING:
        return True
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return one == other
    if name == "data":
        one, other = with_later(one), with_later(other)
    shared = one.keys() & other.keys()
    return all(same_training(one[key], other[key], f"{name}.{key}".lstrip(".")) for key in shared)


def make_group(runs: Sequence[Run]) -> Group:
    """The seeds of one method, in their order; refuses a seed twice and runs that were certified differently."""
    first = runs[0]
    for run in runs[1:]:
        # each seed learns a split of its own of the one budget
        own = first.settings.sigmas if first.learned_split and run.learned_split else run.settings.sigmas
        differing = settings_difference(first.settings, replace(run.settings, seed=first.settings.seed, sigmas=own))
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


def comparable(one: Group, other: Group) -> bool:
    """Whether both answered for the same images, at one alpha, with the same draws, both exactly or neither."""
    how = {(group.settings.alpha, group.settings.schedule, group.settings.exact) for group in (one, other)}
    return len(how) == 1 and len(alike((*one.runs, *other.runs), Run.same_images)) == 1


def standard_lead(one: Group, other: Group, bound: Bound) -> Lead | None:
    """In standard accuracy, over all seeds; None where radius 0 was not decided."""
    sides = (one.outcomes(bound), other.outcomes(bound))
    if any(answers.decided(0.0) is None for side in sides for answers in side):
        return None
    return paired_lead(*(np.stack([answers.correct.astype(np.float64) for answers in side]) for side in sides))


def radius_lead(one: Group, other: Group, bound: Bound) -> Lead | None:
    """In average certified radius, in pixel units, over all seeds; None where only a grid of radii was decided."""
    sides = (one.outcomes(bound), other.outcomes(bound))
    if any(answers.grid for side in sides for answers in side):
        return None
    return paired_lead(*(np.stack([answers.radii_of_correct for answers in side]) for side in sides))
