"""The checks of an audit, in one table: each asks one question of a model, and answers with a Finding.

A random check refuses a sound model with probability at most LEVEL. Passing means that no defect was found. It is not a
proof.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import beta as beta_law
from scipy.stats import binom, chi2, kstest, norm, poisson
from torch import Tensor

from ars.audit.draws import FAR, FAR_OUT, FIRST_OTHER, SAME_LOSS, STATISTICS, Floats, Measured, Place, Subject
from ars.certification.certifier import Certifier
from ars.certification.logits import alike, moves
from ars.certification.model_check import TIED, check_counting
from ars.certification.settings import BLOCK
from ars.certification.step_check import (
    DRAWS,
    LEVELS,
    ROUNDING,
    Residuals,
    check_leaks,
    generators,
    if_it_can,
    losses_of,
    promise_of,
)
from ars.certification.votes import block_seed, draw_logits
from ars.runs.audits import FAMILY_LEVEL, Finding
from ars.smoothing import Gaussian
from ars.smoothing.mechanism import Images, Release, Step
from ars.theory import Ball
from ars.theory.tradeoff import Gaussian as GaussianTradeOff
from ars.theory.tradeoff import TradeOff

Answer = tuple[bool | None, str, float | None, dict[str, Any]]
NO_FIGURE: dict[str, Any] = {}

POINTS = (0.5, 0.9, 0.99, 0.999, 1.0)  # quantiles at X that are thresholds of the statistics
CLOSE = 2.0**-20  # values of noise that differ by less, relative to the release, count as equal
TIES = 500  # coordinates in which equal noise is sought
EVEN = (0.2, 0.8)  # shares of votes whose chi-squared statistic follows its law closely
SIZES = (1, 2, 16, 32, BLOCK)
IMAGES_COUNTED = 200
WORDS = "other noise than stated: value is not weight * X + std * z"


def check_short(subject: Subject) -> Answer:
    """What ars certify asks of a model before it counts a vote."""
    certifier = Certifier(subject.given, subject.settings.certify)
    certifier.prepare(subject.images)
    return True, "nothing is refused", None, NO_FIGURE


def check_likelihood_ratio(subject: Subject) -> Answer:
    """The log-likelihood ratio of all releases, for X + e against X, is N(-mu^2/2, mu^2), mu no larger than promised.

    mu may vary with the releases: independent noise then completes the ratio to a constant mu. A sum of normal steps,
    each with a variance that the earlier ones fix, together with what is missing to the total, is normal.
    """
    scores: list[Floats] = []
    excess, known = 0.0, True
    for place in subject.places:
        radius = place.far
        promise, shown = place.ideal(radius), float(place.here.worst.max()) * radius
        if isinstance(promise, GaussianTradeOff) and radius > 0:
            excess = max(excess, shown / promise.mu - 1)
        most = place.largest_loss(max(radius, 1e-9))
        known = known and most is not None
        if most is not None:
            scores.append(_completed(place, place.here, most))
    if excess > ROUNDING:
        return False, (
            f"the stated weights and deviations show {excess:.2%} more of X than is guaranteed; derive guarantee() "
            "from the largest possible weight / std"
        ), None, NO_FIGURE  # fmt: skip
    if not (known and _normal(subject)):
        return (
            None,
            "the noise is not normal, so the law of its ratio is not known; see operating points",
            None,
            NO_FIGURE,
        )
    pooled = np.concatenate(scores)
    p = _sure((1 + len(scores)) * min(_p_score(score) for score in (pooled, *scores)))
    counts, edges = np.histogram(pooled, bins=61, range=(-4.6, 4.6))
    said = f"mean {pooled.mean():+.4f} and variance {np.square(pooled).mean():.4f} in place of 0 and 1"
    figure = {"counts": counts.tolist(), "edges": edges.tolist(), "draws": len(pooled)}
    return p > LEVEL, f"{said}, over {len(pooled):,} draws", p, figure


def check_operating_points(subject: Subject) -> Answer:
    """No statistic tells X + e from X better than the guarantee allows: beta >= f(alpha) at every threshold.

    Thresholds are quantiles of half of the draws at X; the other half gives alpha, and draws at X + e give beta. Points
    of different images may be averaged because f is convex.
    """
    places = [place for place in subject.places if place.far > 0]
    if not places or places[0].guarantee(places[0].far) is None:
        return None, "the mechanism states a radius but no trade-off function; see radius", None, NO_FIGURE
    points, curves, worst = [], {}, (math.inf, "")
    share, levels = LEVEL / (2 * 2 * len(STATISTICS) * len(POINTS)), np.linspace(0.001, 0.999, 60)
    for name, radius in (("there", places[0].far), ("nearby", places[0].near)):
        if radius == 0:
            continue
        promised = cast(TradeOff, places[0].guarantee(radius))
        curves[name] = [promised(level) for level in levels.tolist()]
        for column, statistic in enumerate(STATISTICS):
            for point in POINTS:
                above = below = n_above = n_below = 0
                for place in places:
                    here, there = place.here.values[:, column], getattr(place, name).values[:, column]
                    half = len(here) // 2
                    threshold = np.quantile(here[:half], point)
                    above, n_above = above + int((here[half:] > threshold).sum()), n_above + len(here) - half
                    below, n_below = below + int((there <= threshold).sum()), n_below + len(there)
                high = promised(_upper(above, n_above, share))
                gap = _upper(below, n_below, share) - high
                said = f"{statistic}: alpha {above / n_above:.4f} and beta {below / n_below:.4f}"
                worst = min(worst, (gap, f"{said}, where at least {promised(above / n_above):.4f} is guaranteed"))
                points.append([name, statistic, above / n_above, below / n_below])
    figure = {"points": points, "levels": levels.tolist(), "curves": curves}
    if worst[0] < 0:
        return False, f"a test beats the guarantee: {worst[1]}", None, figure
    return True, f"no test beats it by more than chance; closest, {worst[1]}", None, figure


def check_radius(subject: Subject) -> Answer:
    """At the radius certified for p, the test that has p at X, and knows X and e, still has 1/2 at X + e.

    It is the best test if the noise is normal; then it reaches 1/2 just there, and the radius is not too small either.
    """
    places = [place for place in subject.places if place.far > 0]
    if not places:
        return None, "the certified radius is 0 even for .99 of the votes", None, NO_FIGURE
    normal = _normal(subject)
    known = normal and all(place.largest_loss(place.far) is not None for place in places)
    shares, drawn = {}, sum(len(place.there.loss) for place in places)
    for column, statistic in enumerate(STATISTICS[:1] if known else STATISTICS):
        shares[statistic] = 0
        for place in places:
            if known:
                scores = _completed(place, place.there, cast(float, place.largest_loss(place.far)))
                threshold = float(ndtri(FAR))
            else:
                scores, here = place.there.values[:, column], np.sort(place.here.values[:, column])
                # an order statistic that is above the quantile FAR, except with a tenth of LEVEL in all
                risk = LEVEL / (10 * len(places) * len(STATISTICS))
                threshold = here[min(int(binom.isf(risk, len(here), FAR)), len(here) - 1)]
            shares[statistic] += int((scores <= threshold).sum())
    best = min(shares, key=lambda statistic: shares[statistic])
    share = shares[best] / drawn
    p = _sure(1.2 * len(shares) * float(binom.cdf(shares[best], drawn, 0.5)))
    said = f"the test has {share:.4f} of the votes at the radius certified for {FAR:g}, and must have .5 or more"
    if known:
        reach = ndtri(FAR) / max(ndtri(FAR) - float(ndtri(min(max(share, 1e-9), 1 - 1e-9))), 1e-9)
        return p > LEVEL, f"{said}; it reaches .5 at {reach:.3f} times the radius", p, NO_FIGURE
    return p > LEVEL, f"{said} (by {best}, the best of {len(shares)} tests)", p, NO_FIGURE


def check_votes(subject: Subject) -> Answer:
    """Votes scatter as independent ones do: over blocks of 100 draws, over the places in a block, and side by side.

    A vote is whether a number lies above its median: the gap of two leading logits of the network, or the ratio.
    """
    p_values: list[float] = []
    shown: dict[str, list[Any]] = {}
    for place in subject.places:
        for name, numbers in (("network", _gaps(subject, place)), ("noise", place.here.values[:, 0])):
            votes = (numbers > np.median(numbers)).reshape(-1, BLOCK)
            if name == "noise" and not EVEN[0] < votes.mean() < EVEN[1]:
                p_values.append(0.0)  # a continuous number is the same in many draws
            elif EVEN[0] < votes.mean() < EVEN[1]:
                p_values += _independent(votes)
                shown.setdefault(name, []).append(votes.sum(axis=1))
    if not shown:
        return False, "all draws have the same noise", 0.0, NO_FIGURE
    p = min(1.0, float(min(p_values)) * len(p_values))
    counts = np.concatenate([votes for parts in shown.values() for votes in parts])
    ratio = float(np.mean([votes.var(ddof=1) / (BLOCK * 0.25) for parts in shown.values() for votes in parts]))
    figure = {"votes": np.bincount(counts, minlength=BLOCK + 1).tolist(), "blocks": len(counts)}
    about = f"variance over {len(counts)} blocks of {BLOCK} votes {ratio:.2f} times that of independent votes"
    return p > LEVEL, f"{about} ({' and '.join(shown)})", p, figure


def check_noise(subject: Subject) -> Answer:
    """(value - weight X) / std is noise of mean 0 and variance 1, with the tails that the guarantee needs."""
    for place in subject.places:
        _ = place.here
    p, said, figure = _noise(subject, subject.residuals)
    return p > LEVEL, said, p, figure


def check_low_bits(subject: Subject) -> Answer:
    """Rounding shows no more of X than stated: no coarser steps of noise than float32's, and none at all in exact mode.

    In the default mode, which is certified in real arithmetic, only the first is asked.
    """
    return _exact_bits(subject) if subject.exact else _steps_of_noise(subject)


def check_batches(subject: Subject) -> Answer:
    """A draw is answered alike alone and in batches of any size, whatever the others in the batch are."""
    model, counted = subject.model, subject.counter.batch(subject.images)
    others = [*(1 - subject.images), *(torch.full_like(subject.images[0], level) for level in LEVELS), *subject.images]
    seen = False
    for number in range(len(subject.images)):
        image = subject.images[number : number + 1]
        alone = _answers(subject, image, [], 1)
        seen = seen or moves(alone, images=1)
        for size in (*SIZES[1:], counted):
            subject.tick(0)
            found = [_answers(subject, image, [image], size)]
            if size != counted:  # there check_counting asks
                rows = (if_it_can(_answers, subject, image, company, size) for company in (others, others[::-1]))
                found += [row for row in rows if row is not None]
            if not all(alike(row, found[0], images=1, rounded_to=torch.float32) for row in found):
                return False, f"among {size} draws: {TIED}", None, NO_FIGURE
            # batches of another size may be rounded as in bf16
            if not alike(found[0], alone, images=1, rounded_to=torch.bfloat16):
                return False, f"among {size} draws otherwise than alone: {TIED}", None, NO_FIGURE
        check_counting(subject.counter, image)
    if not seen:
        return None, f"{type(model.classifier).__name__} gives every draw of these images the same logits", None, {}
    return True, f"alone, and among {', '.join(map(str, SIZES[1:]))} and {counted} draws", None, NO_FIGURE


def check_masks(subject: Subject) -> Answer:
    """Weights, deviations and noise stay as they are if X changes and the earlier releases do not."""
    for place in subject.places:
        image, pixel = place.image, place.image.clone()
        pixel[..., 0, 0] = 1 - pixel[..., 0, 0]
        near = [image + sign * step * place.direction for sign in (1, -1) for step in (place.far, 1 / 255)]
        plain = [torch.full_like(image, level) for level in (*LEVELS, 0.25, 0.75)]
        others = [*near, pixel, 1 - image, image.flip(-1), *plain, *_singles(subject.images)]
        for seed in range(4):
            subject.tick(0)
            check_leaks(place.mechanism, image, others, seed=seed)
    looked = f"{len(others)} other images in place of each of {len(subject.places)}, with 4 draws of the noise"
    return True, looked, None, NO_FIGURE


def check_eval_mode(subject: Subject) -> Answer:
    """In eval mode no part trains, none returns to training, and the same draws get the same answers twice."""
    model, image = subject.model, subject.images[:1].expand(BLOCK, -1, -1, -1)
    state = torch.get_rng_state()
    before = _training(model)
    first, second = (draw_logits(model, image, generators(image, [0])).clone() for _ in range(2))
    after = _training(model)
    names = ", ".join((before or after)[:3])
    if before:
        return False, f"{names} stays in training mode after eval(); let train() pass the mode on", None, NO_FIGURE
    if after:
        return False, f"{names} goes back to training mode in the forward pass; leave the mode alone", None, NO_FIGURE
    if not torch.equal(state, torch.get_rng_state()):
        return False, "the forward pass draws from torch's global generator, as dropout does", None, NO_FIGURE
    if not alike(second, first, images=1, rounded_to=torch.float32):
        return False, "the same draws get other logits a second time, as with dropout", None, NO_FIGURE
    return True, f"{sum(1 for _ in model.modules())} modules in eval mode, {BLOCK} draws repeated", None, NO_FIGURE


def check_autocast(subject: Subject) -> Answer:
    """Under autocast to bf16, releases are still of float32, and the noise and its guarantee are as stated."""
    residuals = [Residuals(one.edges) for one in subject.residuals]
    for place in subject.places[:2]:
        promise = place.ideal(place.far)
        with torch.autocast(place.image.device.type, dtype=torch.bfloat16):
            batches = place.draws(max(2, subject.settings.draws // 10 // BLOCK) * BLOCK, first=FIRST_OTHER)
            for releases in batches:
                with torch.autocast(place.image.device.type, enabled=False):
                    narrow = _narrow(releases)
                    if narrow:
                        return False, f"{narrow} under autocast; compute it in float32", None, NO_FIGURE
                    for kept, release in zip(residuals, releases, strict=True):
                        kept.add((release.value - release.weight * place.image) / release.std)
                    draws = place.image.expand(len(releases[0].value), -1, -1, -1)
                    shown = float(losses_of(releases, draws, subject.settings.norm).max()) * place.far
                if isinstance(promise, GaussianTradeOff) and shown > promise.mu * (1 + ROUNDING):
                    more = shown / promise.mu - 1
                    return False, f"the stated deviations show {more:.2%} more of X than is guaranteed", None, NO_FIGURE
    p, said, _ = _noise(subject, residuals)
    return p > LEVEL, said, p, NO_FIGURE


def check_drift(subject: Subject) -> Answer:
    """After draws of many images the same draws get the same answers as at the start."""
    counter, images, seed = subject.counter, subject.images, subject.settings.seed
    each = max(1, subject.settings.draws // (IMAGES_COUNTED * BLOCK)) * BLOCK
    noise = torch.Generator().manual_seed(seed)
    for number in range(IMAGES_COUNTED):
        image = images[number % len(images)][None]
        mixed = (image + torch.rand(image.shape, generator=noise).to(image)) / 2
        mechanism = subject.mechanism_of(subject.model.mechanism, mixed)
        counter([mechanism], mixed, [FIRST_OTHER + number], n=each, stage="select", seed=seed)
        subject.tick(each)
    subject.drift.check()
    return True, f"{IMAGES_COUNTED} images of {each} draws after the other checks", None, NO_FIGURE


@dataclass(frozen=True)
class Check:
    """A check with its name and its question; by_chance is whether it may refuse a sound model by chance."""

    name: str
    question: str
    ask: Callable[[Subject], Answer]
    by_chance: bool = False

    def __call__(self, subject: Subject) -> Finding:
        """The answer; a defect that a check refuses by an error is found too."""
        try:
            passed, said, p_value, figure = self.ask(subject)
        except (TypeError, ValueError) as error:
            passed, said, p_value, figure = False, f"{error}", None, NO_FIGURE
        false_alarm = LEVEL if self.by_chance and passed is not None else 0.0
        return Finding(self.name, self.question, passed, said, p_value, false_alarm, figure)


CHECKS = (
    Check("model check", "Does ars certify take the model?", check_short, True),
    Check("likelihood ratio", "Do all releases together show no more of X than they state?", check_likelihood_ratio,
          True),
    Check("operating points", "Does any statistic beat the stated trade-off function?", check_operating_points, True),
    Check("radius", "Does the best test still have half of the votes at the certified radius?", check_radius, True),
    Check("votes", "Are the votes of draws independent?", check_votes, True),
    Check("noise", "Is the noise what it states, up to its tails?", check_noise, True),
    Check("low bits", "Does rounding show more of X?", check_low_bits, True),
    Check("batches", "Are draws answered alike in batches of any size?", check_batches),
    Check("masks", "Do weights and deviations see only releases?", check_masks),
    Check("eval mode", "Is everything in eval mode, and stays there?", check_eval_mode),
    Check("autocast", "Do noise and guarantee hold under autocast to bf16?", check_autocast, True),
    Check("drift", "Does the model stay the same over many images?", check_drift),
)  # fmt: skip
LEVEL = FAMILY_LEVEL / len(CHECKS)


def _normal(subject: Subject) -> bool:
    """Whether every step draws normal noise: it says so by its type, or the draws at X look like it."""
    for place in subject.places:
        _ = place.here
    steps = cast(Sequence[Step], subject.model.mechanism.steps)
    return all(isinstance(step, Gaussian) or kept.normal() for step, kept in zip(steps, subject.residuals, strict=True))


def _completed(place: Place, draws: Measured, most: float) -> Floats:
    """The ratio with independent noise of the variance that it lacks, divided by the largest deviation."""
    if np.ptp(draws.loss) <= SAME_LOSS * most:
        return draws.values[:, 0] / most
    part = int(draws is place.there)
    noise = np.random.default_rng([place.subject.settings.seed, place.number, part]).standard_normal(len(draws.loss))
    lacking = np.sqrt(np.maximum(most**2 - draws.loss**2, 0))
    completed: Floats = (draws.values[:, 0] + lacking * noise) / most
    return completed


def _p_score(score: Floats) -> float:
    """p-value of standard normal numbers: their mean, their variance, and Kolmogorov-Smirnov."""
    n, total = len(score), float(np.square(score).sum())
    p_mean = 2 * norm.sf(abs(float(score.mean())) * math.sqrt(n))
    p_variance = 2 * min(chi2.cdf(total, n), chi2.sf(total, n))
    return _sure(3 * min(p_mean, p_variance, kstest(score, "norm").pvalue))


def _sure(p: float) -> float:
    """A p-value; what is not a number comes from noise that is none."""
    return min(1.0, float(p)) if p >= 0 else 0.0


def _upper(count: int, n: int, level: float) -> float:
    """Clopper and Pearson's upper bound."""
    return 1.0 if count == n else float(beta_law.isf(level, count + 1, n - count))


def _independent(votes: NDArray[np.bool_]) -> list[float]:
    """p-values of votes [blocks, 100]: dispersion over blocks and over places, and agreement of neighbours."""
    p_values = []
    for table in (votes, votes.T):
        counts, size = table.sum(axis=1), table.shape[1]
        p = counts.mean() / size
        statistic = float(np.square(counts - size * p).sum() / (size * p * (1 - p)))
        p_values += [2 * min(chi2.sf(statistic, len(counts) - 1), chi2.cdf(statistic, len(counts) - 1))]
    centred = votes - votes.mean()
    pairs = centred[:, 1:] * centred[:, :-1]
    p_values.append(2 * norm.sf(abs(pairs.sum()) / (math.sqrt(pairs.size) * centred.var())))
    return [_sure(p) for p in p_values]


def _gaps(subject: Subject, place: Place) -> Floats:
    """The gap of the two leading logits of the network in each draw, counted as votes are."""
    counter, image = subject.counter, subject.images[place.number : place.number + 1]
    end, size = subject.share(subject.settings.draws // 2) // BLOCK, counter.batch(image) // BLOCK
    parts = []
    for start in range(0, end, size):
        blocks = range(start, min(start + size, end))
        seeds = [block_seed(subject.settings.seed, place.number, "select", block) for block in blocks]
        subject.tick(len(blocks) * BLOCK)
        batch = image.expand(len(blocks) * BLOCK, -1, -1, -1)
        parts.append(counter.answer(batch, generators(image, seeds)).double().cpu())
    logits = torch.cat(parts)
    leading = logits.mean(dim=0).topk(2).indices
    gaps: Floats = (logits[:, leading[0]] - logits[:, leading[1]]).numpy()
    return gaps


def _noise(subject: Subject, residuals: Sequence[Residuals]) -> tuple[float, str, dict[str, Any]]:
    """The p-value of the noise of all steps, what is said of it, and the numbers of a figure."""
    p_values, tails = [], []
    for step, kept in zip(cast(Sequence[Step], subject.model.mechanism.steps), residuals, strict=True):
        p_normal = kept.p_normal()
        p_values.append(kept.p_unit(normal=isinstance(step, Gaussian) or kept.normal()))
        if isinstance(step, Gaussian):
            p_values.append(p_normal)
        promise = promise_of(step, Ball(subject.settings.norm, subject.images[0].numel(), 1.0))
        if isinstance(step, Gaussian) or isinstance(promise, GaussianTradeOff):
            p_values.append(kept.p_tails())
        tails.append(kept.counts.tolist())
    p = _sure(min(_sure(p) for p in p_values) * len(p_values))
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
            p_values.append(_sure(float(poisson.sf(ties - 1, 4 * expected + 1))))
        said.append(f"{ties} of {gaps.numel():,}")
    p = min(1.0, min(p_values) * len(p_values))
    words = f"{', '.join(said)} neighbouring values of the noise of a coordinate are equal"
    advice = "" if p > LEVEL else ": the noise has coarse steps, as in bf16; draw it in float32 with ars.draw_like"
    return p > LEVEL, words + advice, p, NO_FIGURE


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
            worst = min(worst, _upper(beta, n, share) - promised(_upper(alpha, n, share)))
    pairs = " and ".join(f"{here} and {there}" for here, there in zip(*fine, strict=True))
    said = f"values near 0 have bits that float noise leaves in {pairs} of {n} draws, of a black image and at 1/255"
    return worst >= 0, said, None, NO_FIGURE


def _fine(releases: Sequence[Release]) -> Tensor:
    """For each step and draw: is a value near 0 no multiple of 2^-32?"""
    rows = []
    for release in releases:
        near = (release.value.double() / release.weight.double().clamp_min(1e-9)).flatten(1)
        rows.append(((near.abs() < 2.0**-9) & ((near * 2.0**32).frac() != 0)).any(dim=1))
    return torch.stack(rows)


def _answers(subject: Subject, image: Images, company: Sequence[Images], size: int) -> Tensor:
    """The logits of DRAWS draws of an image, in batches of this size with other images; their noise is the same."""
    rows = max(1, min(DRAWS, size // 2))
    answers = []
    for start in range(0, DRAWS, rows):
        batch, seeds = [image] * rows, list(range(start, start + rows))
        for number in range(size - rows):
            batch.append(company[number % len(company)].view_as(image))
            seeds.append(DRAWS + number)
        order = np.random.default_rng(start).permutation(size).tolist()
        logits = draw_logits(subject.model, torch.cat(batch)[order], generators(image, [seeds[at] for at in order]))
        answers.append(logits[np.argsort(order)[:rows].tolist()].clone())
    return torch.cat(answers)


def _singles(images: Images) -> list[Images]:
    """Each image as a batch."""
    return [images[number : number + 1] for number in range(len(images))]


def _training(model: torch.nn.Module) -> list[str]:
    """The names of the parts in training mode."""
    return [name or type(part).__name__ for name, part in model.named_modules() if part.training]


def _narrow(releases: Sequence[Release]) -> str:
    """The first part of a release that is of less than float32."""
    for number, release in enumerate(releases):
        for name in ("value", "weight", "std"):
            dtype = getattr(release, name).dtype
            if torch.finfo(dtype).bits < 32:
                return f"the {name} of step {number} is {dtype}"
    return ""
