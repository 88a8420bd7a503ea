"""certify() and predict(): select a class, estimate its probability on fresh draws, abstain or state a radius."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import binomtest
from torch import Tensor

from ars.certification.bounds import BOUNDS, Bound, check_alpha, check_enough, class_probabilities
from ars.certification.certificate import Certificate, Prediction
from ars.certification.estimation import estimate, make_rule
from ars.certification.in_precision import check_precision
from ars.certification.independence import check_independent
from ars.certification.limits import MOST_DRAWS
from ars.certification.sampling import Precision, check_drawing, local_votes, runs
from ars.certification.schedule import Mode, Outcome, Schedule
from ars.smoothing import SmoothedClassifier
from ars.smoothing.images import as_batch
from ars.theory import Norm
from ars.theory.arguments import as_whole

Image = Float[Tensor, "c h w"]
Batch = Float[Tensor, "b c h w"]


def check_request(
    model: SmoothedClassifier,
    schedule: Schedule,
    *,
    norm: Norm,
    dim: int,
    alpha: float,
    bound: Bound,
    n_select: int,
    seed: int,
    precision: Precision,
    indices: Sequence[int] = (),
) -> None:
    """Refuse, before anything is drawn, what could not be certified afterwards."""
    check_enough(schedule.n_max, alpha, bound)
    model.radius(0.75, 0.25, norm=norm, dim=dim)  # refuses a norm that the proof does not cover
    make_rule(schedule, model, norm=norm, dim=dim, alpha=alpha, bound=bound).check()
    as_whole("n_select", n_select, least=1, most=MOST_DRAWS)
    check_drawing(seed, indices, precision)


def check_model(model: object) -> None:
    """Refuse a network that is not smoothed."""
    if not isinstance(model, SmoothedClassifier):
        raise TypeError(
            f"expected a smoothed classifier, got {type(model).__name__}; smooth it: ars.cohen(net, sigma=0.5)"
        )


def certify(
    model: SmoothedClassifier,
    x: Image | Batch,
    *,
    norm: Norm = "linf",
    n_select: int = 100,
    n_estimate: int = 50_000,
    alpha: float = 0.05,
    seed: int,
    bound: Bound = "cohen",
    mode: Mode = "fixed",
    radii: Sequence[float] = (),
    tolerance: float | None = None,
    indices: Sequence[int] | None = None,
    precision: Precision = "float32",
    batch_size: int | None = None,
) -> Certificate | list[Certificate]:
    """Certify one image [c, h, w] (one Certificate) or a batch [b, c, h, w] (a list of them).

    For each image, with probability at least 1 - alpha over the draws: if a label is given, no perturbation with
    norm at most the radius changes it. n_select draws choose the class, n_estimate fresh ones estimate its
    probability. indices (default 0, 1, ...) name the images, so that each gets noise of its own.

    That holds for images that were chosen without knowledge of the draws, which seed and indices decide. For a test
    set any fixed seed will do, and the result can be repeated; for images that others hand in, take one that they
    cannot know: seed=secrets.randbits(32).

    Fewer draws than n_estimate do with mode="radius", which plans them to lose no more than a share tolerance
    (default .01) of the radius, and mode="curve", which only decides which of the increasing radii are certified.
    """
    check_model(model)
    n_select = as_whole("n_select", n_select, least=1, most=MOST_DRAWS)
    n_estimate = as_whole("n_estimate", n_estimate, least=1, most=MOST_DRAWS)
    alpha, seed, batch_size = check_alpha(alpha), as_whole("seed", seed, least=0), _at_once(batch_size)
    images = as_batch(x)
    dim = images[0].numel()
    schedule = Schedule.of(mode, n_estimate, radii=radii, tolerance=tolerance)
    rule_of: dict[str, Any] = {"norm": norm, "dim": dim, "alpha": alpha, "bound": bound}
    names = _names(images, indices)
    check_request(model, schedule, **rule_of, n_select=n_select, seed=seed, precision=precision, indices=names)
    check_independent(model, images)
    check_precision(model, images, precision)
    models = model.localise(images)
    how: dict[str, Any] = {"seed": seed, "precision": precision, "batch_size": batch_size}
    selected = local_votes(models, images, names, n=n_select, stage="select", **how)
    outcomes: list[Outcome] = []
    for local, part in runs(models):
        rule = make_rule(schedule, local, **rule_of)
        outcomes += estimate(local, images[part], names[part], selected[part], rule, **how)
    certificates = [
        conclude(
            local, select_counts, outcome, norm=norm, dim=dim, alpha=alpha, bound=bound,
            seed=seed, index=index, precision=precision,
        )
        for local, select_counts, outcome, index in zip(models, selected, outcomes, names, strict=True)
    ]  # fmt: skip
    return certificates if x.ndim == 4 else certificates[0]


def conclude(
    model: SmoothedClassifier,
    select_counts: np.ndarray,
    outcome: Outcome,
    *,
    norm: Norm,
    dim: int,
    alpha: float,
    bound: Bound,
    seed: int,
    index: int,
    precision: Precision,
) -> Certificate:
    """From votes to the certificate: the class of the selection draws, the radius of the estimation draws."""
    candidate = int(select_counts.argmax())
    lower, upper, radii = outcome.p_lower, 1 - outcome.p_lower, {bound: outcome.radius}
    if not outcome.stopped_by_data:
        probabilities = {name: class_probabilities(outcome.counts, candidate, alpha, name) for name in BOUNDS}
        lower, upper = probabilities[bound]
        radii = {
            name: model.radius(low, high, norm=norm, dim=dim) if low > high else 0.0
            for name, (low, high) in probabilities.items()
        }
    elif outcome.schedule.mode == "radius":
        radii = dict.fromkeys(BOUNDS, 0.0)  # given up
    return Certificate(
        label=candidate if outcome.certified or radii[bound] > 0 else None,
        radius=radii[bound],
        norm=norm,
        dim=dim,
        candidate=candidate,
        p_lower=lower,
        p_upper=upper,
        bound=bound,
        radii=radii,
        counts=outcome.counts,
        select_counts=tuple(int(count) for count in select_counts),
        alpha=alpha,
        sigmas=model.mechanism.sigmas,
        seed=seed,
        index=index,
        precision=precision,
        schedule=outcome.schedule,
        planned=outcome.planned,
        ended=outcome.ended,
    )


def predict(
    model: SmoothedClassifier,
    x: Image | Batch,
    *,
    n: int = 1000,
    alpha: float = 0.05,
    seed: int,
    indices: Sequence[int] | None = None,
    precision: Precision = "float32",
    batch_size: int | None = None,
) -> Prediction | list[Prediction]:
    """The smoothed classifier's label (Cohen et al., PREDICT), or an abstention, for one image or a batch.

    With probability at least 1 - alpha over the draws: if a label is given, it is the most probable class. The two
    leading classes are told apart by an exact binomial test. As for certify(), images are to be chosen without
    knowledge of the draws: for those that others hand in, take a seed that they cannot know. There is no radius; the
    command ``ars predict`` has one, it is certify() on image files.
    """
    check_model(model)
    n, batch_size = as_whole("n", n, least=1, most=MOST_DRAWS), _at_once(batch_size)
    alpha, seed = check_alpha(alpha), as_whole("seed", seed, least=0)
    images = as_batch(x)
    if 2 * 0.5**n > alpha:
        raise ValueError(f"n={n} draws cannot tell two classes apart at alpha={alpha} even if all votes agree")
    names = _names(images, indices)
    check_drawing(seed, names, precision)
    check_independent(model, images)
    check_precision(model, images, precision)
    how: dict[str, Any] = {"seed": seed, "precision": precision, "batch_size": batch_size}
    votes = local_votes(model.localise(images), images, names, n=n, stage="estimate", **how)
    predictions = []
    for counts, index in zip(votes, names, strict=True):
        runner_up, leader = np.argsort(counts, kind="stable")[-2:]
        p_value = float(binomtest(int(counts[leader]), int(counts[leader] + counts[runner_up]), 0.5).pvalue)
        predictions.append(
            Prediction(
                label=int(leader) if p_value <= alpha else None,
                p_value=p_value,
                counts=tuple(int(count) for count in counts),
                alpha=alpha,
                seed=seed,
                index=index,
            )
        )
    return predictions if x.ndim == 4 else predictions[0]


def _at_once(batch_size: int | None) -> int | None:
    """How many draws at most, None for as many as suits."""
    return None if batch_size is None else as_whole("batch_size", batch_size, least=1)


def _names(images: Batch, indices: Sequence[int] | None) -> list[int]:
    given = range(len(images)) if indices is None else indices
    if not isinstance(given, Iterable):
        raise ValueError(f"indices must be a list of whole numbers, one for each image, got {given!r}")
    names = [as_whole("an image's index", index, least=0) for index in given]
    if len(names) != len(images) or len(set(names)) != len(names):
        raise ValueError(f"need one distinct index for each of the {len(images)} images, got {names}")
    return names
