"""Certifier, certify() and predict(): select a class, estimate its probability on fresh draws, certify or abstain."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import binomtest
from torch import Tensor

from ars.certification.bounds import BOUNDS, Bound, check_alpha, class_probabilities
from ars.certification.certificate import Certificate, Prediction
from ars.certification.images import as_batch
from ars.certification.martingale import levels_of
from ars.certification.model_check import Drift, check_again, check_counting, check_model
from ars.certification.model_copy import copy_model, fast_copy
from ars.certification.settings import BLOCK, MOST_DRAWS, MOST_SEED, CertifySettings, Mode, fresh_seed
from ars.certification.step_check import check_steps
from ars.certification.stopping import CurveRule, FixedRule, Outcome, RadiusRule, Rule
from ars.certification.votes import Stage, VoteCounter, Watch
from ars.kernels.precision import Precision, choose_precision
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Composition, Images
from ars.theory import Norm
from ars.theory.rounding import as_whole

Image = Float[Tensor, "c h w"]


class Certifier:
    """Copies, checks and accelerates a model once, then certifies any number of images with it.

    For each image, with probability at least 1 - alpha over the draws: if a label is given, no perturbation with norm
    at most the radius changes it. This holds for images chosen without knowledge of the draws, which are determined by
    the seed and the image's index.

    The certifier works on a copy: it never changes the model, and later changes of the model have no effect. Only the
    reference images of input-dependent noise are shared. The first images of each shape are used to check the model
    before anything is drawn. expect is the number of images to come, so that work that pays off only for many draws is
    done at the start.
    """

    def __init__(
        self,
        model: SmoothedClassifier,
        settings: CertifySettings,
        *,
        expect: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        check_smoothed(model)
        self.settings, self.expect = settings, expect
        self.batch_size = None if batch_size is None else as_whole("batch_size", batch_size, least=1)
        self._plain = copy_model(model)
        if settings.exact:
            self._plain.mechanism.use_exact()
        self._counters: dict[tuple[torch.Size, torch.device], VoteCounter] = {}
        self._drifts: dict[VoteCounter, Drift] = {}
        self._next = 0  # the default index of the next image
        self._certifiable: set[int] = set()  # sizes of an image for which the request was checked

    def prepare(self, images: Images) -> VoteCounter:
        """Check and accelerate the model for images of this shape, once per shape; returns the vote counter."""
        key = (images.shape[1:], images.device)
        if key not in self._counters:
            precision = choose_precision(self.settings.precision, images.device)
            first = check_model(self._plain, images)
            check_steps(localise(self._plain, images[:1], exact=self.settings.exact)[0], images[:1], self.settings.norm)
            fast = self._plain if precision == "float32" else fast_copy(self._plain, images)
            counter = VoteCounter(fast, precision, batch_size=self.batch_size)
            if self.expect:
                counter.expect(self.expect * (self.settings.n_select + self.settings.n_estimate), images)
            drift = Drift(counter, images, n=self.settings.n_select + self.settings.n_estimate)
            check_counting(counter, images)
            check_again(self._plain, images, first)
            drift.check()
            self._drifts[counter], self._counters[key] = drift, counter
        return self._counters[key]

    def __call__(
        self, images: Image | Images | np.ndarray, indices: Sequence[int] | None = None, *, watch: Watch | None = None
    ) -> list[Certificate]:
        """Certify images; indices, by default 0, 1, ... over all calls, give each its own noise."""
        settings, images = self.settings, as_batch(images)
        dim, names = images[0].numel(), self._identify(images, indices)
        if dim not in self._certifiable:
            check_request(self._plain, settings, dim=dim)
            self._certifiable.add(dim)
        counter = self.prepare(images)
        mechanisms = localise(counter.model, images, exact=self.settings.exact)
        selected = counter(
            mechanisms, images, names, n=settings.n_select, stage="select", seed=settings.seed, watch=watch
        )
        outcomes: list[Outcome] = []
        for mechanism, part in _runs(mechanisms):
            rule = make_rule(settings, mechanism, dim=dim)
            outcomes += self._estimate(counter, mechanism, images[part], names[part], selected[part], rule, watch)
        self._drifts[counter].check()
        return [
            conclude(mechanism, counts, outcome, settings, dim=dim, index=index, precision=counter.precision)
            for mechanism, counts, outcome, index in zip(mechanisms, selected, outcomes, names, strict=True)
        ]

    def votes(
        self,
        images: Image | Images | np.ndarray,
        indices: Sequence[int] | None = None,
        *,
        n: int,
        stage: Stage = "select",
    ) -> np.ndarray:
        """The votes [images, classes] of n draws of each image, without a certificate."""
        images = as_batch(images)
        names, counter = self._identify(images, indices), self.prepare(images)
        mechanisms = localise(counter.model, images, exact=self.settings.exact)
        votes = counter(mechanisms, images, names, n=n, stage=stage, seed=self.settings.seed)
        self._drifts[counter].check()
        return votes

    def _identify(self, images: Images, indices: Sequence[int] | None) -> list[int]:
        """The indices of images, by default those that follow the ones before."""
        names = _names(images, range(self._next, self._next + len(images)) if indices is None else indices)
        self._next = max(self._next, *(name + 1 for name in names))
        return names

    def _estimate(
        self,
        counter: VoteCounter,
        mechanism: Composition,
        images: Images,
        names: Sequence[int],
        selected: np.ndarray,
        rule: Rule,
        watch: Watch | None,
    ) -> list[Outcome]:
        """Draw votes for each image until the rule has decided it; decided images leave the batch."""
        state = rule.start(selected)
        counts = np.zeros(selected.shape, dtype=np.int64)
        while state.going.any():
            drawn = counts.sum(axis=1)
            until = rule.next_look(drawn, state)
            # images with the same numbers of past and next draws share a call
            for first, last in np.unique(np.stack([drawn, until])[:, state.going], axis=1).T.tolist():
                group = np.flatnonzero(state.going & (drawn == first) & (until == last)).tolist()
                counts[group] += counter(
                    [mechanism] * len(group),
                    images[group],
                    [names[position] for position in group],
                    n=last - first,
                    first_block=first // BLOCK,
                    stage="estimate",
                    seed=self.settings.seed,
                    watch=watch,
                )
            state = rule.look(state, counts)
        return rule.outcomes(state, counts)


def certify(
    model: SmoothedClassifier,
    x: Image | Images | np.ndarray,
    *,
    norm: Norm = "linf",
    n_select: int = 100,
    n_estimate: int = 50_000,
    alpha: float = 0.05,
    seed: int | None = None,
    bound: Bound = "cohen",
    mode: Mode = "fixed",
    radii: Sequence[float] = (),
    tolerance: float | None = None,
    indices: Sequence[int] | None = None,
    precision: Precision = "float32",
    exact: bool = False,
    batch_size: int | None = None,
) -> Certificate | list[Certificate]:
    """Certify one image [c, h, w] (one Certificate) or a batch [b, c, h, w] (a list of them), in [0, 1].

    For each image, with probability at least 1 - alpha over the draws: if a label is given, no perturbation with
    norm at most the radius changes it. n_select draws choose the class, n_estimate fresh ones estimate its
    probability. indices (default 0, 1, ...) identify the images, so that each gets different noise.

    This holds for images chosen without knowledge of the draws, which are determined by seed and indices. For a test
    set any fixed seed will do, and the result can be repeated. For images that others submit, leave it out: then a seed
    that nobody can know is drawn, and the certificate records it.

    NumPy arrays may also be bytes, grey [h, w], or have their channels last.

    Two modes need fewer draws than n_estimate: mode="radius" plans the draws to lose no more than a share tolerance
    (default .01) of the radius, and mode="curve" only decides which of the increasing radii are certified.

    exact=True draws noise in whole units far below an 8-bit level and is certified in float arithmetic. The default is
    certified in real arithmetic.

    Each call copies and checks the model. To certify many images one after another, use a Certifier.
    """
    images = as_batch(x)
    settings = CertifySettings(
        norm=norm,
        n_select=n_select,
        n_estimate=n_estimate,
        alpha=alpha,
        bound=bound,
        mode=mode,
        radii=cast("tuple[float, ...]", radii),
        tolerance=tolerance,
        seed=fresh_seed() if seed is None else as_whole("seed", seed, least=0, most=MOST_SEED),
        precision=precision,
        exact=exact,
    )
    certificates = Certifier(model, settings, expect=len(images), batch_size=batch_size)(images, indices)
    return certificates if x.ndim == 4 else certificates[0]


def predict(
    model: SmoothedClassifier,
    x: Image | Images | np.ndarray,
    *,
    n: int = 1000,
    alpha: float = 0.05,
    seed: int | None = None,
    indices: Sequence[int] | None = None,
    precision: Precision = "float32",
    exact: bool = False,
    batch_size: int | None = None,
) -> Prediction | list[Prediction]:
    """The smoothed classifier's label (Cohen et al., PREDICT), or an abstention, for one image or a batch.

    With probability at least 1 - alpha over the draws: if a label is given, it is the most probable class. An exact
    binomial test compares the two leading classes. As with certify(), images must be chosen without knowledge of the
    draws: for images that others submit, leave the seed out, and one that nobody can know is drawn. There is no radius.
    The command ``ars predict`` prints one, because it runs certify() on image files.
    """
    n, alpha, images = as_whole("n", n, least=1, most=MOST_DRAWS), check_alpha(alpha), as_batch(x)
    if 2 * 0.5**n > alpha:
        raise ValueError(f"n={n} draws cannot tell two classes apart at alpha={alpha} even if all votes agree")
    names = _names(images, indices)
    seed = fresh_seed() if seed is None else as_whole("seed", seed, least=0, most=MOST_SEED)
    settings = CertifySettings(seed=seed, precision=precision, exact=exact)
    certifier = Certifier(model, settings, batch_size=batch_size)
    predictions = []
    for counts, index in zip(certifier.votes(images, names, n=n, stage="estimate"), names, strict=True):
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


def localise(model: SmoothedClassifier, images: Images, *, exact: bool) -> Sequence[Composition]:
    """Each image's mechanism, in eval mode, in exact mode if that was asked for."""
    mechanisms = model.localise(images.clone())
    for mechanism in {id(mechanism): mechanism for mechanism in mechanisms}.values():
        mechanism.eval()
        if exact:
            mechanism.use_exact()
    return mechanisms


def check_smoothed(model: object) -> None:
    """Refuse a network that is not smoothed, or with its own forward pass, which the vote loop would not call."""
    if not isinstance(model, SmoothedClassifier):
        raise TypeError(
            f"expected a smoothed classifier, got {type(model).__name__}; smooth it, as in ars.cohen(net, sigma=0.5)"
        )
    parts = ((model, SmoothedClassifier, "forward"), (model.mechanism, Composition, "release"))
    for part, known, draw in parts:
        for name in (draw, "guarantee", "radius"):
            if getattr(type(part), name) is not getattr(known, name) or name in vars(part):
                raise TypeError(
                    f"{type(part).__name__} has its own {name}(), but the steps of its mechanism, combine and "
                    "classifier alone draw the votes and state the radius; put it into one of these"
                )
    if model._forward_pre_hooks or model._forward_hooks:
        raise ValueError(
            "the smoothed classifier has a forward hook, which certification does not run; register it on the network "
            "that follows the noise, or change the images before they are certified"
        )


def check_request(model: SmoothedClassifier, settings: CertifySettings, *, dim: int) -> None:
    """Refuse, before anything is drawn, a request that could not be certified, whatever the weights."""
    mechanism = model.mechanism
    if settings.exact and not mechanism.exact:
        mechanism = deepcopy(mechanism)
        mechanism.use_exact()
    mechanism.radius(0.75, 0.25, norm=settings.norm, dim=dim)  # refuses a norm that the proof does not cover
    make_rule(settings, mechanism, dim=dim).check()


def make_rule(settings: CertifySettings, mechanism: Composition, *, dim: int) -> Rule:
    """The stopping rule for images of one mechanism; its radius gives the probability that each radius needs."""
    if settings.mode == "fixed":
        return FixedRule(settings.schedule, alpha=settings.alpha)
    if settings.mode == "radius":
        return RadiusRule(settings.schedule, alpha=settings.alpha, bound=settings.bound)
    levels = levels_of(lambda p: mechanism.radius(p, 1 - p, norm=settings.norm, dim=dim), settings.radii)
    return CurveRule(settings.schedule, levels, alpha=settings.alpha)


def conclude(
    mechanism: Composition,
    select_counts: np.ndarray,
    outcome: Outcome,
    settings: CertifySettings,
    *,
    dim: int,
    index: int,
    precision: Precision,
) -> Certificate:
    """From votes to the certificate: the class of the selection draws, the radius of the estimation draws."""
    candidate, bound = int(select_counts.argmax()), settings.bound
    lower, upper, radii = outcome.p_lower, 1 - outcome.p_lower, {bound: outcome.radius}
    if not outcome.stopped_by_data:
        probabilities = {name: class_probabilities(outcome.counts, candidate, settings.alpha, name) for name in BOUNDS}
        lower, upper = probabilities[bound]
        radii = {
            name: mechanism.radius(low, high, norm=settings.norm, dim=dim) if low > high else 0.0
            for name, (low, high) in probabilities.items()
        }
    elif outcome.schedule.mode == "radius":
        radii = dict.fromkeys(BOUNDS, 0.0)  # the image was given up
    return Certificate(
        label=candidate if outcome.certified or radii[bound] > 0 else None,
        radius=radii[bound],
        norm=settings.norm,
        dim=dim,
        candidate=candidate,
        p_lower=lower,
        p_upper=upper,
        bound=bound,
        radii=radii,
        counts=outcome.counts,
        select_counts=tuple(int(count) for count in select_counts),
        alpha=settings.alpha,
        sigmas=mechanism.sigmas,
        seed=settings.seed,
        index=index,
        precision=precision,
        schedule=outcome.schedule,
        planned=outcome.planned,
        ended=outcome.ended,
        exact=mechanism.exact,
    )


def _runs(mechanisms: Sequence[Composition]) -> Iterator[tuple[Composition, slice]]:
    """Slices of consecutive images with the same mechanism, which share batches of draws."""
    start = 0
    for _, same in groupby(mechanisms, key=id):
        part = slice(start, start + len(list(same)))
        yield mechanisms[start], part
        start = part.stop


def _names(images: Images, indices: Sequence[int] | None) -> list[int]:
    given = range(len(images)) if indices is None else indices
    if not isinstance(given, Iterable):
        raise ValueError(f"indices must be a list of whole numbers, one for each image, got {given!r}")
    names = [as_whole("an image's index", index, least=0, most=MOST_SEED) for index in given]
    if len(names) != len(images) or len(set(names)) != len(names):
        raise ValueError(f"need one distinct index for each of the {len(images)} images, got {names}")
    return names
