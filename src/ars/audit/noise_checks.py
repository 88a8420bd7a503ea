"""Is the noise what its step states? Its law, its finest steps, its independence of X, and all that under autocast."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from scipy.special import ndtr
from scipy.stats import poisson
from torch import Tensor

from ars.audit.answer import LEVEL, Answer, sure, upper_bound
from ars.audit.draws import FAR_OUT, FIRST_OTHER, Subject, singles
from ars.certification.settings import BLOCK
from ars.certification.step_check import (
    LEVELS,
    ROUNDING,
    Residuals,
    check_leaks,
    generators,
    losses_of,
)
from ars.smoothing import Gaussian
from ars.smoothing.mechanism import Release, Step
from ars.theory import Ball
from ars.theory.tradeoff import Gaussian as GaussianTradeOff

CLOSE = 2.0**-20  # values of noise that differ by less, relative to the release, count as equal
TIES = 500  # coordinates in which equal noise is sought
WORDS = "other noise than stated: value is not weight * X + std * z"


def check_noise(subject: Subject) -> Answer:
    """(value - weight X) / std is noise of mean 0 and variance 1, with the tails that the guarantee needs."""
    for place in subject.places:
        _ = place.here
    p, said, figure = _noise(subject, subject.residuals)
    return Answer(p > LEVEL, said, p, figure)


def check_low_bits(subject: Subject) -> Answer:
    """Rounding shows no more of X than stated: no coarser steps of noise than float32's, and none at all in exact mode.

    In the default mode, which is certified in real arithmetic, only the first is asked.
    """
    return _exact_bits(subject) if subject.exact else _steps_of_noise(subject)


def check_masks(subject: Subject) -> Answer:
    """Weights, deviations and noise stay as they are if X changes and the earlier releases do not."""
    for place in subject.places:
        image, pixel = place.image, place.image.clone()
        pixel[..., 0, 0] = 1 - pixel[..., 0, 0]
        near = [image + sign * step * place.direction for sign in (1, -1) for step in (place.far, 1 / 255)]
        plain = [torch.full_like(image, level) for level in (*LEVELS, 0.25, 0.75)]
        others = [*near, pixel, 1 - image, image.flip(-1), *plain, *singles(subject.images)]
        for seed in range(4):
            subject.tick(0)
            check_leaks(place.mechanism, image, others, seed=seed)
    looked = f"{len(others)} other images in place of each of {len(subject.places)}, with 4 draws of the noise"
    return Answer(True, looked)


def check_autocast(subject: Subject) -> Answer:
    """Under autocast to bf16, releases are still of float32, and the noise and its guarantee are as stated."""
    residuals = [Residuals(one.norm, one.exact, one.edges) for one in subject.residuals]
    for place in subject.places[:2]:
        promise = place.ideal(place.far)
        with torch.autocast(place.image.device.type, dtype=torch.bfloat16):
            batches = place.draws(max(2, subject.settings.draws // 10 // BLOCK) * BLOCK, first=FIRST_OTHER)
            for releases in batches:
                with torch.autocast(place.image.device.type, enabled=False):
                    narrow = _narrow(releases)
                    if narrow:
                        return Answer(False, f"{narrow} under autocast; compute it in float32")
                    for kept, release in zip(residuals, releases, strict=True):
                        kept.add(release, place.image)
                    shown = float(losses_of(releases, subject.settings.norm).max()) * place.far
                if isinstance(promise, GaussianTradeOff) and shown > promise.mu * (1 + ROUNDING):
                    more = shown / promise.mu - 1
                    return Answer(False, f"the stated deviations show {more:.2%} more of X than is guaranteed")
    p, said, _ = _noise(subject, residuals)
    return Answer(p > LEVEL, said, p)


def _noise(subject: Subject, residuals: Sequence[Residuals]) -> tuple[float, str, dict[str, Any]]:
    """The p-value of the noise of all steps, what is said of it, and the numbers of a figure."""
    p_values, tails = [], []
    for step, kept in zip(cast(Sequence[Step], subject.model.mechanism.steps), residuals, strict=True):
        p_normal = kept.p_normal()
        p_values.append(1.0 if kept.lost else kept.p_unit(strict=isinstance(step, Gaussian)))
        if isinstance(step, Gaussian):
            p_values.append(p_normal)
        promise = kept.promise_of(step, subject.images[0].numel())
        if isinstance(step, Gaussian) or isinstance(promise, GaussianTradeOff):
            p_values.append(kept.p_tails(max(1.0, promise.mu) if isinstance(promise, GaussianTradeOff) else 1.0))
        tails.append(kept.counts.tolist())
    p = sure(min(sure(p) for p in p_values) * len(p_values))
    figure = {"edges": list(residuals[0].edges), "counts": tails}
    numbers = min(int(kept.counts.sum()) for kept in residuals)
    if not p > LEVEL:
        return p, f"{WORDS} ({numbers:,} numbers per step)", figure
    # the p-value if no number at all lay beyond an edge
    missing = {edge: math.exp(-numbers * 2 * ndtr(-edge)) * len(FAR_OUT) * len(p_values) for edge in FAR_OUT}
    seen = max((edge for edge, p_missing in missing.items() if p_missing <= LEVEL), default=0.0)
    return p, f"{numbers:,} numbers per step; noise that ends below {seen:g} deviations would be seen", figure


def _steps_of_noise(subject: Subject) -> Answer:
    """Do draws repeat the same noise, or nearly, more often than float32 does?"""
    place, draws = subject.places[0], 10 * BLOCK
    parts = list(place.draws(draws, first=2 * FIRST_OTHER))
    p_values, said = [], []
    for number in range(len(parts[0])):
        releases = [part[number] for part in parts]
        noise = torch.cat([(one.value - one.weight * place.image).flatten(1)[:, :TIES] for one in releases]).double()
        std = torch.cat([one.std.expand(len(one.value), 1, 1, 1).flatten(1) for one in releases]).double()
        size = torch.cat([one.value.flatten(1)[:, :TIES] for one in releases]).abs().amax(dim=0).double() + 1e-30
        for values, width in ((noise, CLOSE * size), (noise / std, CLOSE * size / std.min())):
            gaps = values.sort(dim=0).values.diff(dim=0)
            ties = int((gaps < width).sum())
            # two normal numbers of deviation s lie within w of each other with probability w / (sqrt(pi) s)
            spread = values.std(dim=0) + 1e-30
            expected = float((len(values) ** 2 / 2 * width / (math.sqrt(math.pi) * spread)).sum())
            p_values.append(sure(float(poisson.sf(ties - 1, 4 * expected + 1))))
        said.append(f"{ties} of {gaps.numel():,}")
    p = min(1.0, min(p_values) * len(p_values))
    words = f"{', '.join(said)} neighbouring values of the noise of a coordinate are equal"
    advice = "" if p > LEVEL else ": the noise has coarse steps, as in bf16; draw it in float32 with ars.draw_like"
    return Answer(p > LEVEL, words + advice, p)


def _exact_bits(subject: Subject) -> Answer:
    """Can a black image be told from one at 1/255 by values near 0 that are no multiples of 2^-32?"""
    dim = subject.images[0].numel()
    black = torch.zeros_like(subject.images[:1])
    radius = 1 / 255 if subject.settings.norm == "linf" else math.sqrt(dim) / 255
    mechanism = subject.mechanism_of(subject.model.mechanism, black)
    promised = mechanism.guarantee(Ball(subject.settings.norm, dim, radius))
    fine = []
    for first, image in ((0, black), (10, black + 1 / 255)):
        batch = image.expand(BLOCK, -1, -1, -1)
        shown = [_fine(mechanism.release(batch, generators(image, [first + block]))) for block in range(10)]
        fine.append(torch.cat(shown, dim=1).sum(dim=1).tolist())
    n, share, worst = 10 * BLOCK, LEVEL / (4 * len(mechanism.steps)), math.inf
    for here, there in zip(*fine, strict=True):
        for alpha, beta in ((here, n - there), (n - here, there)):
            worst = min(worst, upper_bound(beta, n, share) - promised(upper_bound(alpha, n, share)))
    pairs = " and ".join(f"{here} and {there}" for here, there in zip(*fine, strict=True))
    said = f"values near 0 have bits that float noise leaves in {pairs} of {n} draws, of a black image and at 1/255"
    return Answer(worst >= 0, said)


def _fine(releases: Sequence[Release]) -> Tensor:
    """For each step and draw: is a value near 0 no multiple of 2^-32?"""
    rows = []
    for release in releases:
        near = (release.value.double() / release.weight.double().clamp_min(1e-9)).flatten(1)
        rows.append(((near.abs() < 2.0**-9) & ((near * 2.0**32).frac() != 0)).any(dim=1))
    return torch.stack(rows)


def _narrow(releases: Sequence[Release]) -> str:
    """The first part of a release that is of less than float32."""
    for number, release in enumerate(releases):
        for name in ("value", "weight", "std"):
            dtype = getattr(release, name).dtype
            if torch.finfo(dtype).bits < 32:
                return f"the {name} of step {number} is {dtype}"
    return ""
