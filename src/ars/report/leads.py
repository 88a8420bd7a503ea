"""How far methods are apart that were certified alike on the same images, counted image by image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ars.report.groups import Group
from ars.report.inputs import alike
from ars.report.measures import Lead, Outcomes, paired_lead
from ars.report.results import Run
from ars.report.table import Block


@dataclass(frozen=True)
class Difference:
    """One group less another; a measure that their certification did not decide has no lead."""

    one: Group
    other: Group
    standard: Lead | None
    average_radius: Lead | None


def differences(block: Block) -> list[Difference]:
    """Every two rows of a block that can be compared, the later one less the earlier one, the last row's first."""
    groups = [row.group for row in block.rows]
    return [
        Difference(one, other, standard_lead(*answers), radius_lead(*answers))
        for number, one in reversed(list(enumerate(groups)))
        for other in groups[:number]
        if comparable(one, other)
        for answers in [(one.outcomes(block.bound), other.outcomes(block.bound))]
    ]


def comparable(one: Group, other: Group) -> bool:
    """Whether both answered for the same images, at one alpha and with the same draws."""
    how = {(group.settings.alpha, group.settings.schedule) for group in (one, other)}
    return len(how) == 1 and len(alike((*one.runs, *other.runs), Run.same_images)) == 1


def standard_lead(mine: Sequence[Outcomes], theirs: Sequence[Outcomes]) -> Lead | None:
    """In standard accuracy; None where radius 0 was not decided."""
    if any(answers.decided(0.0) is None for answers in (*mine, *theirs)):
        return None
    return _lead(mine, theirs, lambda answers: answers.correct.astype(np.float64))


def radius_lead(mine: Sequence[Outcomes], theirs: Sequence[Outcomes]) -> Lead | None:
    """In average certified radius, in pixel units; None where only a grid of radii was decided."""
    if any(answers.grid for answers in (*mine, *theirs)):
        return None
    return _lead(mine, theirs, lambda answers: np.where(answers.correct, answers.radius, 0.0))


def _lead(
    mine: Sequence[Outcomes], theirs: Sequence[Outcomes], measure: Callable[[Outcomes], NDArray[np.float64]]
) -> Lead:
    one, other = (np.stack([measure(answers) for answers in seeds]) for seeds in (mine, theirs))
    return paired_lead(one, other)
