"""The draws of an audit: made as in certification, measured at X and at X + e by what an attacker could compute."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ars.certification.certifier import check_request, localise
from ars.certification.images import as_batch
from ars.certification.memory import suitable_batch
from ars.certification.model_check import Drift
from ars.certification.model_copy import copy_model
from ars.certification.settings import BLOCK, MOST_DRAWS, MOST_SEED, CertifySettings
from ars.certification.step_check import DRAWS, Residuals, generators, losses_of, promise_of
from ars.certification.votes import VoteCounter, block_seed
from ars.kernels.precision import choose_precision
from ars.smoothing import Gaussian as NormalStep
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Composition, Images, Release, Step
from ars.theory import Ball, Norm, UnsupportedThreat
from ars.theory.rounding import as_whole
from ars.theory.tradeoff import Gaussian, TradeOff

Floats = NDArray[np.float64]
Tick = Callable[[int], None]

FAR_OUT = (1.0, 2.0, 3.0, 3.6, 4.0, 4.2, 4.4, 4.6, 4.8, 5.0, 5.2, 5.4)
EDGES = (*(-edge for edge in reversed(FAR_OUT)), 0.0, *FAR_OUT)
STATISTICS = ("likelihood ratio", "signs", "cubes", "largest", "smallest", "energy")
FAR, NEAR = 0.99, 0.6
"""The radii at which X + e lies are those certified for votes with these shares."""
FIRST_FAR, FIRST_NEAR, FIRST_OTHER = 10**6, 2 * 10**6, 3 * 10**6
"""The first blocks of draws that must not be those at X."""
LEAST_BLOCKS = 10  # of one image; with fewer, chi-squared statistics of its votes do not follow their law
SAME_LOSS = 1e-5  # relative spread of a loss that does not depend on the releases, as float32 computes it


@dataclass(frozen=True)
class AuditSettings:
    """How a model is audited; the norm and the mode are those in which it will be certified.

    Args:
        draws: draws at the images in each check of noise; others make a part of them.
        norm: linf or l2.
        seed: seed of the noise.
        precision: float32, bfloat16, or auto (bfloat16 if the device supports it).
        exact: audit exact mode.
    """

    draws: int = 20_000
    norm: Norm = "linf"
    seed: int = 0
    precision: Literal["float32", "bfloat16", "auto"] = "auto"
    exact: bool = False

    def __post_init__(self) -> None:
        as_whole("draws", self.draws, least=20 * BLOCK, most=MOST_DRAWS)
        as_whole("seed", self.seed, least=0, most=MOST_SEED)

    @property
    def certify(self) -> CertifySettings:
        """The settings of the certification that is audited."""
        return CertifySettings(norm=self.norm, seed=self.seed, precision=self.precision, exact=self.exact)


@dataclass(frozen=True)
class Measured:
    """What is computed of each draw of one image: STATISTICS [draws, 6] by which X + e could be told from X.

    All are larger at X + e. Their first, the sum over the steps of <w e, m - w X> / s^2 for e of radius 1, is the
    log-likelihood ratio but for constants, if the noise is normal; its variance is then loss^2. worst is the loss for
    the worst perturbation of radius 1.
    """

    values: Floats
    loss: Floats
    worst: Floats


class Place:
    """One image of an audit: X, moved into the interior of [0, 1], the direction of e, and the mechanism there."""

    def __init__(self, subject: "Subject", number: int, image: Images) -> None:
        settings = subject.settings
        self.subject, self.number, self.dim = subject, number, image[0].numel()
        mechanism = localise(subject.model, image, exact=settings.exact)[0]
        self.direction = direction(mechanism, image, settings.norm, number)
        margin = float(self.direction.abs().max()) * mechanism.radius(FAR, 1 - FAR, norm=settings.norm, dim=self.dim)
        if margin < 0.5:
            image = margin + (1 - 2 * margin) * image
        # exact mode rounds X; its guarantee accounts for that, a likelihood ratio does not
        self.image = (255 * image).round() / 255 if subject.exact else image
        self.mechanism = localise(subject.model, self.image, exact=settings.exact)[0]
        radius = self.mechanism.radius
        self.far, self.near = (radius(p, 1 - p, norm=settings.norm, dim=self.dim) for p in (FAR, NEAR))

    def draws(self, n: int, *, moved: float = 0.0, first: int = 0) -> Iterator[list[Release]]:
        """The releases of n draws at X + moved e, from block first on, in device batches of whole blocks."""
        image = self.image + moved * self.direction
        mechanism = self.mechanism if moved == 0 else self.subject.mechanism_of(self.mechanism, image)
        size, end = suitable_batch(image) // BLOCK, first + n // BLOCK
        for start in range(first, end, size):
            blocks = range(start, min(start + size, end))
            seeds = [block_seed(self.subject.settings.seed, self.number, "estimate", block) for block in blocks]
            self.subject.tick(len(blocks) * BLOCK)
            yield mechanism.release(image.expand(len(blocks) * BLOCK, -1, -1, -1), generators(image, seeds))

    def measure(self, releases: Sequence[Release], scales: Sequence[Tensor] | None = None) -> Measured:
        """The statistics of these draws."""
        count = len(releases[0].value)
        score, signs, cubes, energy, square = (torch.zeros(count, dtype=torch.float64) for _ in range(5))
        largest, smallest = torch.full_like(score, -math.inf), torch.full_like(score, math.inf)
        for number, release in enumerate(releases):
            std = (release.std if scales is None else scales[number]).double()
            z = ((release.value.double() - release.weight.double() * self.image.double()) / std).flatten(1)
            shift = (release.weight.double() * self.direction.double() / std).expand_as(release.value).flatten(1)
            along = shift.sign() * z
            score += (shift * z).sum(dim=1).cpu()
            square += shift.square().sum(dim=1).cpu()
            signs += along.sign().sum(dim=1).cpu()
            cubes += (shift * z**3).sum(dim=1).cpu()
            largest = torch.maximum(largest, along.amax(dim=1).cpu())
            smallest = torch.minimum(smallest, along.amin(dim=1).cpu())
            energy += z.square().sum(dim=1).cpu()
        values = torch.stack([score, signs, cubes, largest, smallest, energy], dim=1)
        worst = losses_of(releases, self.subject.settings.norm)
        return Measured(values.numpy(), square.sqrt().numpy(), worst.cpu().numpy())

    @cached_property
    def here(self) -> Measured:
        """The draws at X; they also fill the residuals of the subject."""
        parts = []
        for releases in self.draws(self.subject.share(self.subject.settings.draws)):
            self.subject.keep(releases, self.image)
            parts.append(self.measure(releases))
        return _joined(parts)

    @cached_property
    def there(self) -> Measured:
        """Half as many draws at X + e, e of radius far."""
        return self._moved(self.far, FIRST_FAR)

    @cached_property
    def nearby(self) -> Measured:
        """Half as many draws at X + e, e of radius near."""
        return self._moved(self.near, FIRST_NEAR)

    def _moved(self, radius: float, first: int) -> Measured:
        """Draws at X + e, e of this radius, from another block on.

        Where noise depends on the image, they are scaled as at X: a release does not show its own deviation.
        """
        scales, parts = None, []
        if self.subject.mechanism_of(self.mechanism, self.image) is not self.mechanism:
            scales = [release.std for release in self.mechanism.release(self.image, generators(self.image, [0]))]
        for releases in self.draws(self.subject.share(self.subject.settings.draws // 2), moved=radius, first=first):
            parts.append(self.measure(releases, scales))
        return _joined(parts)

    def guarantee(self, radius: float) -> TradeOff | None:
        """The guarantee for perturbations of this radius; None if the mechanism states only a radius."""
        try:
            return self.mechanism.guarantee(self._ball(radius))
        except UnsupportedThreat:
            return None

    def ideal(self, radius: float) -> TradeOff | None:
        """The same without the allowance for the sampler of exact mode."""
        return promise_of(self.mechanism, self._ball(radius))

    def _ball(self, radius: float) -> Ball:
        return Ball(self.subject.settings.norm, self.dim, radius)

    def largest_loss(self, radius: float) -> float | None:
        """A loss per unit of radius that no draw exceeds: the constant one, or that of a normal guarantee."""
        loss = self.here.loss
        if np.ptp(loss) <= SAME_LOSS * loss.max():
            return float(loss.max())
        promise = self.ideal(radius)
        return promise.mu / radius if isinstance(promise, Gaussian) else None


class Subject:
    """A model under audit: a copy that all checks share, so that they see what earlier draws changed."""

    def __init__(
        self, model: SmoothedClassifier, images: Images, settings: AuditSettings, tick: Tick = lambda draws: None
    ) -> None:
        if not isinstance(model, SmoothedClassifier):
            raise TypeError(
                f"expected a smoothed classifier, got {type(model).__name__}; smooth it, as in ars.cohen(net, sigma=.5)"
            )
        self.given, self.images, self.settings, self.tick = model, as_batch(images), settings, tick
        self.model = copy_model(model)
        check_request(self.model, settings.certify, dim=self.images[0].numel())
        if settings.exact:
            self.model.mechanism.use_exact()
        self.counter = VoteCounter(self.model, choose_precision(settings.precision, self.images.device))
        self.exact = settings.exact or self.model.mechanism.exact  # a model may bring exact steps of its own
        self.drift = Drift(self.counter, self.images, n=BLOCK**2)
        steps = cast(Sequence[Step], self.model.mechanism.steps)
        self.residuals = [Residuals(settings.norm, step.exact, EDGES) for step in steps]

    @cached_property
    def places(self) -> list[Place]:
        """The images with the directions in which they are moved."""
        return [Place(self, number, image) for number, image in enumerate(singles(self.images))]

    def share(self, draws: int) -> int:
        """The draws of one image, in whole blocks."""
        return max(LEAST_BLOCKS, draws // len(self.images) // BLOCK) * BLOCK

    def keep(self, releases: Sequence[Release], image: Images) -> None:
        """Add the noise of these draws to what is kept of each step."""
        for kept, release in zip(self.residuals, releases, strict=True):
            kept.add(release, image)

    @property
    def normal(self) -> bool:
        """Whether every step is a Gaussian; another law may have the guarantee of normal noise too."""
        return all(isinstance(step, NormalStep) for step in self.model.mechanism.steps)

    def mechanism_of(self, usual: Composition, image: Images) -> Composition:
        """The mechanism at an image: the usual one, unless noise depends on the image."""
        found = localise(self.model, image, exact=self.settings.exact)[0]
        return usual if found is self.model.mechanism else found


def singles(images: Images) -> list[Images]:
    """Each image as a batch."""
    return [images[number : number + 1] for number in range(len(images))]


def direction(mechanism: Composition, image: Images, norm: Norm, number: int) -> Images:
    """A perturbation of radius 1: random signs, brighter everywhere, a checkerboard; for L2 also one coordinate."""
    signs = torch.randint(0, 2, image.shape, generator=torch.Generator().manual_seed(number)).to(image) * 2 - 1
    height, width = image.shape[-2:]
    board = (torch.arange(height).view(-1, 1) + torch.arange(width)) % 2 * 2 - 1
    kinds = [signs, torch.ones_like(image), signs, board.to(image).expand_as(image)]
    if norm == "linf":
        return kinds[number % 4]
    if number % 4 != 2:
        return kinds[number % 4] / math.sqrt(image.numel())
    # where the releases show most of X, on average
    releases = mechanism.release(image.expand(DRAWS, -1, -1, -1), generators(image, range(DRAWS)))
    shown = [(one.weight / one.std).square().expand_as(one.value).mean(dim=0) for one in releases]
    single = torch.zeros_like(image)
    single.view(-1)[torch.stack(shown).sum(dim=0).argmax()] = 1
    return single


def _joined(parts: Sequence[Measured]) -> Measured:
    return Measured(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "loss", "worst")))
