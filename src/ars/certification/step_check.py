"""Do the steps of a mechanism keep their word? Otherwise the guarantee that they state is not that of their releases.

The check refuses the defects that it detects. Passing means that no defect was found. It is not a proof. It asks of
each step, on releases of whole blocks of draws of one image:

- Does it share noise between the draws of one generator?
- Do its weight, its standard deviation or its noise change with X while its past does not?
- Is (value - weight X) / std noise of mean 0 and variance 1, in every coordinate and at every spatial frequency? Is it
  normal, if the step is a Gaussian? Are its tails those of normal noise or heavier, if its guarantee is?
- Does the loss of the stated weights and deviations stay below the guarantee, in every draw?

Each random part may refuse a sound step with a probability of FALSE_ALARM at most.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import ParamSpec, TypeVar, cast

import numpy as np
import torch
from scipy.special import ndtr
from scipy.stats import binom, chi2
from torch import Tensor

from ars.certification.settings import BLOCK
from ars.kernels.backend import exact
from ars.kernels.precision import autocast, current
from ars.smoothing import Gaussian
from ars.smoothing.mechanism import Composition, Images, Release, Step
from ars.theory import Ball, Norm, UnsupportedThreat
from ars.theory.tradeoff import Approximate, TradeOff
from ars.theory.tradeoff import Gaussian as GaussianTradeOff

Given = ParamSpec("Given")
Result = TypeVar("Result")

LEVELS = (0.5, 0.0, 1.0)  # grey, black and white images change any statistic of a batch as far as possible
DRAWS = 8
TIMES = 10  # how often in a row shared noise must be detected
FEW = 64  # coordinates; with fewer, independent noise may look shared, so that it must be detected more often
MUCH = 3.0  # ratio of the sum of shared noise to that of independent noise
SHARED = 0.2  # share of an image; independent noise that is clamped coincides in less than half of this
RESIDUALS = 2**20
MOST_BLOCKS = 14
FALSE_ALARM = 1e-8
EDGES = (-4.2, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.2)  # of 2^20 normal numbers 28 lie beyond the outermost
ROUNDING, NEARLY_NORMAL = 1e-4, 0.02  # how far mu may seem too small
LEVELS_OF_TESTS = (0.01, 0.1, 0.5, 0.9)
UNIT = 2e-4  # a whole unit of exact mode, by which noise on rounded images may differ


@torch.inference_mode()
def check_steps(mechanism: Composition, image: Images, norm: Norm) -> None:
    """Refuse a mechanism if one of its steps is found not to keep its word on an image [1, c, h, w]."""
    with current(image.device), exact(), autocast(image.device, "float32"):
        _check_shared_noise(mechanism, image.expand(DRAWS, -1, -1, -1))
        random = torch.rand(image.shape, generator=torch.Generator().manual_seed(0)).to(image.device)
        check_leaks(mechanism, image, [1 - image, random, *(torch.full_like(image, level) for level in LEVELS)])
        _check_noise(mechanism, image, norm)


def _check_shared_noise(mechanism: Composition, draws: Images) -> None:
    """Refuse noise that the draws of one generator share; in certification each generator makes a hundred draws.

    A coincidence of a few numbers does not repeat every time.
    """
    suspected: dict[int, str] | None = None
    for attempt in range(TIMES if draws[0].numel() >= FEW else 4 * TIMES):
        seeds = range(attempt * (DRAWS + 1), (attempt + 1) * (DRAWS + 1))
        apart = mechanism.release(draws, generators(draws, seeds[:-1]))
        at_once = mechanism.release(draws, generators(draws, seeds[-1:]))
        seen = {step: _shared(draws, *pair) for step, pair in enumerate(zip(apart, at_once, strict=True))}
        before = seen if suspected is None else suspected
        suspected = {step: how for step, how in before.items() if how and seen[step] == how}
        if not suspected:
            return
    step, how = min(cast("dict[int, str]", suspected).items())
    raise ValueError(
        f"step {step} of the mechanism gives the draws of one generator {how} noise, and no bound on their votes would "
        "hold; draw it with ars.draw_like, which asks for a tensor of many draws"
    )


def _shared(draws: Images, apart: Release, at_once: Release) -> str:
    """How the draws of one generator depend on each other, compared with those of several; empty if no sign is found.

    The signs are equal values, or a sum of the noise that is much larger or smaller than with independent noise.
    """
    ordered = apart.value.flatten(1).sort(dim=0).values
    noisy = (ordered[1:] != ordered[:-1]).all(dim=0)
    values = at_once.value.flatten(1)[:, noisy]
    pairs = combinations(values, 2) if values.shape[1] >= len(noisy) / 2 else ()
    if any(bool((one == other).float().mean() > SHARED) for one, other in pairs):
        return "the same"
    alone, together = (float(noise_of(one, draws).sum(dim=0).square().sum()) for one in (apart, at_once))
    if alone > 0 and not 1 / MUCH < together / alone < MUCH:
        return "opposite" if together < alone else "common"
    return ""


def check_leaks(mechanism: Composition, image: Images, others: Sequence[Images], *, seed: int = 0) -> None:
    """Refuse a step whose stated weight, deviation or noise changes with X while its past does not: that leaks X."""
    releases = mechanism.release(image, generators(image, [seed]))
    for number, step in enumerate(cast(Sequence[Step], mechanism.steps)):
        release = step.release(image, releases[:number], generators(image, [seed]))
        for other in others:
            again = if_it_can(step.release, other, releases[:number], generators(image, [seed]))
            if again is None:
                continue
            if not (torch.equal(again.weight, release.weight) and torch.equal(again.std, release.std)):
                raise ValueError(
                    f"step {number} of the mechanism states a weight or a deviation that depends on the image itself, "
                    "which its guarantee does not cover; compute both from the releases of earlier steps alone"
                )
            moved = (again.value - again.weight * other) - (release.value - release.weight * image)
            if (moved.abs() > again.std / 10 + UNIT).any():
                raise ValueError(
                    f"step {number} of the mechanism gives another image other noise from the same generator, or "
                    f"{NOT_AS_STATED}"
                )


NOT_AS_STATED = (
    "its value is not weight * X + std * z as it states; release the noisy image as it is, and do everything else "
    "in combine"
)


def noise_of(release: Release, image: Images) -> Images:
    """z = (value - weight X) / std."""
    return (release.value - release.weight * image) / release.std


@dataclass
class Residuals:
    """What is kept of z = (value - weight X) / std over the draws of a step, counted between symmetric edges.

    Rounding moves each z by ``grain`` at most: half of it by the rounding of X, which repeats in every draw.
    ``loss`` is the largest mu of any draw per unit of radius.
    """

    norm: Norm
    exact: bool
    """Whether the step releases whole units."""
    edges: tuple[float, ...] = EDGES
    draws: int = 0
    sums: Tensor | float = 0.0
    squares: Tensor | float = 0.0
    """By coordinate."""
    powers: Tensor | float = 0.0
    """By spatial frequency."""
    fourth: float = 0.0
    counts: np.ndarray = field(init=False)
    """Between the edges."""
    grain: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.edges) + 1, dtype=np.int64)

    def add(self, release: Release, image: Images) -> None:
        """Add a block of draws of an image."""
        z = noise_of(release, image)
        self.draws += len(z)
        self.grain = max(self.grain, _grain(release, exact=self.exact))
        self.loss = max(self.loss, float(losses_of([release], self.norm).max()))
        self.sums = self.sums + z.sum(dim=0).flatten()
        self.squares = self.squares + z.square().sum(dim=0).flatten()
        # the Hartley transform: real, orthonormal, and white noise stays white
        spectrum = torch.fft.fftn(z, dim=(1, 2, 3), norm="ortho")
        self.powers = self.powers + (spectrum.real - spectrum.imag).square().sum(dim=0).flatten()
        self.fourth += float(z.double().pow(4).sum())
        places = torch.bucketize(z.flatten(), torch.tensor(self.edges, device=z.device))
        self.counts += torch.bincount(places, minlength=len(self.edges) + 1).cpu().numpy()

    def promise_of(self, step: Step, dim: int) -> TradeOff | None:
        """What the step promises at the radius at which the largest loss is mu = 1."""
        return promise_of(step, Ball(self.norm, dim, 1 / self.loss)) if self.loss > 0 else None

    @property
    def lost(self) -> bool:
        """Whether the noise is below a unit of exact mode, where there is nothing to look at."""
        return self.exact and self.grain > 1

    def normal(self) -> bool:
        """Whether the values may follow a normal law."""
        return self.p_normal() >= FALSE_ALARM

    def p_normal(self) -> float:
        """p-value: do as many values lie between the edges as for a normal law?"""
        edges, total = np.array([-np.inf, *self.edges, np.inf]), self.counts.sum()
        least = np.maximum(ndtr(edges[1:] - self.grain) - ndtr(edges[:-1] + self.grain), 0)
        most = ndtr(edges[1:] + self.grain) - ndtr(edges[:-1] - self.grain)
        below, above = binom.cdf(self.counts, total, least), binom.sf(self.counts - 1, total, most)
        return float(min(below.min(), above.min())) * 2 * len(self.counts)

    def p_tails(self, mu: float) -> float:
        """p-value: do as many values lie far out as G_{mu t} allows for a coordinate that is shifted by t deviations?

        Noise around 0 then has P(|z| > t) >= 2 Phi(-mu t); otherwise the test whether z is above t tells more.
        """
        places = [place + 1 for place, edge in enumerate(self.edges) if edge <= -2]
        far = np.array([self.counts[:place].sum() + self.counts[-place:].sum() for place in places])
        beyond = 2 * ndtr(mu * np.array(self.edges[: len(places)]) - self.grain)
        return float(binom.cdf(far, self.counts.sum(), beyond).min()) * len(far)

    def p_unit(self, *, strict: bool) -> float:
        """p-value: is there enough variance, pooled, by coordinate and by frequency? If strict: no more, and mean 0?

        Sums of squares of n normal numbers are chi-squared with n degrees of freedom. Those of noise with heavier tails
        scatter more, as with fewer degrees, by its kurtosis.
        """
        kept = (self.sums, self.squares, self.powers)
        sums, squares, powers = (cast(Tensor, part).double().cpu().numpy() for part in kept)
        total, count = float(squares.sum()), self.draws * len(squares)
        if not total > 0:
            return 0.0
        share = 2 / max(2.0, self.fourth * count / total**2 - 1)
        grain = self.grain**2
        p_values = [_p_value(part * share, draws * share, most if strict else None) for part, draws, most in (
            (np.array(total), count, 1 + grain / 3),
            (squares, self.draws, 1 + grain / 3),
            (powers, self.draws, 1 + grain * len(powers) / 3),  # what rounding X adds may sit at one frequency
        )]  # fmt: skip
        if strict:
            largest = np.maximum(np.abs(sums) - self.draws * self.grain / 2, 0).max()
            p_values.append(float(chi2.sf(largest**2 / self.draws, 1)) * len(sums))
        return min(p_values) * len(p_values)


def _p_value(sums: np.ndarray, degrees: float, most: float | None) -> float:
    """Of the smallest of some chi-squared numbers, or of the most extreme, which may be ``most`` times as large."""
    least = float(chi2.cdf(sums.min(), degrees)) * sums.size
    return least if most is None else 2 * min(least, float(chi2.sf(sums.max() / most, degrees)) * sums.size)


def _check_noise(mechanism: Composition, image: Images, norm: Norm) -> None:
    """Refuse a step whose noise is not what it states, or whose guarantee promises more than that noise gives."""
    draws, dim = image.expand(BLOCK, -1, -1, -1), image[0].numel()
    steps = cast(Sequence[Step], mechanism.steps)
    residuals = [Residuals(norm, step.exact) for step in steps]
    for block in range(min(MOST_BLOCKS, -(-RESIDUALS // draws.numel()))):
        for kept, release in zip(residuals, mechanism.release(draws, generators(image, [block])), strict=True):
            kept.add(release, draws)
    for number, (step, kept) in enumerate(zip(steps, residuals, strict=True)):
        promise = kept.promise_of(step, dim)
        normal, many = kept.normal(), kept.counts.sum() > RESIDUALS / 8  # few values of any law look normal
        strict = normal and (many or isinstance(step, Gaussian))
        if not kept.lost and kept.p_unit(strict=strict) < FALSE_ALARM:
            raise ValueError(f"step {number} of the mechanism has other noise than it states: {NOT_AS_STATED}")
        gaussian = isinstance(promise, GaussianTradeOff)
        light = isinstance(promise, GaussianTradeOff) and kept.p_tails(max(1.0, promise.mu)) < FALSE_ALARM
        if light or (not normal and isinstance(step, Gaussian)):
            raise ValueError(
                f"step {number} of the mechanism has noise of another law than the normal one it guarantees"
            )
        # at this radius the stated weights and deviations give mu = 1, if the noise is normal
        true = GaussianTradeOff(1 - (ROUNDING if gaussian else NEARLY_NORMAL))
        known = normal and (gaussian or many)
        if promise and known and any(promise(level) > true(level) for level in LEVELS_OF_TESTS):
            raise ValueError(
                f"step {number} of the mechanism guarantees more than its noise gives: for its stated weights and "
                f"deviations mu is {kept.loss:.4g} per unit of {norm} radius; derive guarantee() from the largest "
                "possible weight / std"
            )


def _grain(release: Release, *, exact: bool) -> float:
    """How far rounding may move z: by a whole unit of exact mode, or by a step of float32."""
    unit = UNIT if exact else torch.finfo(torch.float32).eps * max(1.0, float(release.value.abs().max()))
    return unit / max(float(release.std.min()), 1e-30)


def losses_of(releases: Sequence[Release], norm: Norm) -> Tensor:
    """mu of every draw per unit of radius, if the noise is normal: for the worst perturbation, all steps together."""
    like = releases[0].value
    shown = sum((release.weight / release.std).double().square().expand_as(like) for release in releases)
    squares = cast(Tensor, shown).flatten(1)
    return (squares.sum(dim=1) if norm == "linf" else squares.amax(dim=1)).sqrt()


def promise_of(step: Step | Composition, ball: Ball) -> TradeOff | None:
    """The trade-off function that a step or a mechanism states, without its sampler's allowance; None for this norm."""
    try:
        promise = step.guarantee(ball)
    except UnsupportedThreat:
        return None
    return promise.ideal if isinstance(promise, Approximate) else promise


def generators(images: Images, seeds: Sequence[int]) -> list[torch.Generator]:
    """A generator for each seed, on the device of the images."""
    return [torch.Generator(images.device).manual_seed(seed) for seed in seeds]


def if_it_can(ask: Callable[Given, Result], *given: Given.args, **options: Given.kwargs) -> Result | None:
    """The result for images that the user did not give; None if the model cannot take them, which is no defect."""
    try:
        return ask(*given, **options)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return None
