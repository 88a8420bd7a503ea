"""The plain loop that a rule drives: draw, look, and go on with the images that are not decided."""

from collections.abc import Sequence

import numpy as np

from ars.certification.bounds import Bound
from ars.certification.curve import CurveRule
from ars.certification.levels import levels_of
from ars.certification.limits import BLOCK
from ars.certification.sampling import Precision, count_votes
from ars.certification.schedule import Outcome, Schedule
from ars.certification.stopping import FixedRule, RadiusRule, Rule
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images
from ars.theory import Norm


def make_rule(
    schedule: Schedule, model: SmoothedClassifier, *, norm: Norm, dim: int, alpha: float, bound: Bound
) -> Rule:
    """The rule of a schedule for the images of one model, whose own radius says what a grid of radii asks for."""
    if schedule.mode == "fixed":
        return FixedRule(schedule, alpha=alpha, block=BLOCK)
    if schedule.mode == "radius":
        return RadiusRule(schedule, alpha=alpha, bound=bound, block=BLOCK)
    schedule.check_bound(bound)
    levels = levels_of(lambda p: model.radius(p, 1 - p, norm=norm, dim=dim), schedule.radii)
    return CurveRule(schedule, levels, alpha=alpha, block=BLOCK)


def estimate(
    model: SmoothedClassifier,
    images: Images,
    indices: Sequence[int],
    selected: np.ndarray,
    rule: Rule,
    *,
    seed: int,
    precision: Precision = "float32",
    batch_size: int | None = None,
) -> list[Outcome]:
    """Fresh draws for each image until the rule says that it is decided; images leave the batch as they are."""
    state = rule.start(selected)
    counts = np.zeros(selected.shape, dtype=np.int64)
    while state.going.any():
        drawn = counts.sum(axis=1)
        until = rule.next_look(drawn, state)
        # images with as many draws behind and before them share a call
        for first, last in np.unique(np.stack([drawn, until])[:, state.going], axis=1).T.tolist():
            group = np.flatnonzero(state.going & (drawn == first) & (until == last)).tolist()
            counts[group] += count_votes(
                model,
                images[group],
                [indices[position] for position in group],
                n=last - first,
                first_block=first // BLOCK,
                stage="estimate",
                seed=seed,
                precision=precision,
                batch_size=batch_size,
            )
        state = rule.look(state, counts)
    return rule.outcomes(state, counts)
