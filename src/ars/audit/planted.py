"""Models with planted defects: the controls of an audit, each with the check that must find it.

Each is a mistake that somebody could make in a mask, a step or a network, and each gives false certificates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ars.audit.draws import AuditSettings
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, Step, compose, draw_like, last
from ars.smoothing.combine import minimum_variance
from ars.smoothing.mechanism import Generators, Images, Release, normal_like
from ars.theory import Ball, Norm, TradeOff
from ars.theory.tradeoff import Gaussian as GaussianTradeOff

SHAPE = (3, 8, 8)
SIGMA = 0.5
FEW = AuditSettings(draws=4000, precision="float32")
EXACT = AuditSettings(draws=4000, precision="float32", exact=True)


def images() -> Images:
    """The images on which the controls are audited."""
    return 0.25 + torch.rand(2, *SHAPE, generator=torch.Generator().manual_seed(0)) / 2


def network(*after: nn.Module) -> nn.Module:
    """A linear network with fixed weights, and what follows it."""
    linear = nn.Linear(math.prod(SHAPE), 4)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=torch.Generator().manual_seed(1)))
        linear.bias.zero_()
    return nn.Sequential(nn.Flatten(), linear, *after)


class Mask(nn.Module):
    """A sigmoid of the mean over the channels."""

    def forward(self, seen: Images) -> Tensor:
        """One weight per pixel."""
        return (4 * seen.mean(dim=1, keepdim=True) - 2).sigmoid()


def two_steps(second: Step | None = None, classifier: nn.Module | None = None) -> SmoothedClassifier:
    """A sound model of two steps, or one with another second step or classifier."""
    second = second or MaskedGaussian(SIGMA, Mask())
    return SmoothedClassifier(compose(Gaussian(SIGMA), second), minimum_variance, classifier or network())


class Noise(Gaussian):
    """Gaussian noise that is changed after it is drawn; weight and deviation are stated as if it were not."""

    def __init__(self, change: Callable[[Images], Images]) -> None:
        super().__init__(SIGMA)
        self.change = change

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """X and the changed noise."""
        good = super().release(x, past, generator)
        return Release(x + good.std * self.change((good.value - x) / good.std), good.weight, good.std)


class Own(Step):
    """A step that is no Gaussian, but states the guarantee of one."""

    sigma = SIGMA

    def __init__(self, draw: Callable[[Tensor, torch.Generator], Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """X and noise of deviation sigma."""
        one = torch.ones(1, 1, 1, 1, device=x.device)
        return Release(x + SIGMA * draw_like(x, generator, self.draw), one, SIGMA * one)

    def guarantee(self, ball: Ball) -> TradeOff:
        """That of normal noise."""
        return GaussianTradeOff(ball.l2_radius / SIGMA)


class PerPixel(MaskedGaussian):
    """The norm of a mask over one channel in place of three: sqrt(3) too little noise, as its release says."""

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Less noise than Prop. 2.4 asks for."""
        good = super().release(x, past, generator)
        std = good.std / math.sqrt(3)
        return Release(good.weight * x + (good.value - good.weight * x) / math.sqrt(3), good.weight, std)


class Again(MaskedGaussian):
    """The noise of the first step once more."""

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """The masked look with old noise."""
        good = super().release(x, past, generator)
        return Release(good.weight * x + good.std * (past[0].value - x) / past[0].std, good.weight, good.std)


class Peeking(MaskedGaussian):
    """A mask of X instead of what was released."""

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """The masked look, with X as its past."""
        return super().release(x, [Release(x, past[0].weight, past[0].std)], generator)


class Product(MaskedGaussian):
    """The norm of the mask as a matrix product, which autocast rounds to bf16, up or down."""

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """The masked look, with a deviation that is bf16 under autocast."""
        good = super().release(x, past, generator)
        flat = good.weight.expand_as(x).flatten(1)
        square = flat.unsqueeze(1) @ flat.unsqueeze(2) / flat.shape[1]
        std = self.sigma * square.view(-1, 1, 1, 1).sqrt()
        return Release(good.weight * x + std * ((good.value - good.weight * x) / good.std), good.weight, std)


class Generous(Gaussian):
    """A radius that is a tenth too large."""

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """More than the guarantee gives."""
        return 1.1 * super().radius(p_plus, p_minus, norm=norm, dim=dim)


class Unrounded(Gaussian):
    """Says that it is exact, and draws float32 noise as before."""

    def use_exact(self) -> None:
        """Only say so."""
        self.exact = True

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """X and float32 noise."""
        std = torch.full((1, 1, 1, 1), self.sigma, device=x.device)
        return Release(x + std * normal_like(x, generator), torch.ones_like(std), std)


class BatchStatistics(nn.Module):
    """Centres logits over the batch, but only in batches of 32 or more."""

    def forward(self, logits: Tensor) -> Tensor:
        """Logits that depend on the batch."""
        return logits - logits.mean(dim=0) if len(logits) >= 32 else logits


class Remembers(nn.Module):
    """Answers otherwise after the draws of 100 images; it counts them in a plain attribute."""

    seen = 0

    def forward(self, logits: Tensor) -> Tensor:
        """The logits, in another order later."""
        self.seen += len(logits)
        return logits if self.seen <= 100 * 100 else logits.flip(1)


class Dropout(nn.Module):
    """Dropout that eval mode does not end."""

    def forward(self, logits: Tensor) -> Tensor:
        """Some logits are 0."""
        return functional.dropout(logits, training=True)


def hooked() -> SmoothedClassifier:
    """A forward hook that makes X brighter before the noise."""
    model = two_steps()
    model.register_forward_pre_hook(lambda _, given: (1.2 * given[0], *given[1:]))
    return model


def shared(x: Images) -> Images:
    """The noise of the first draw, for all."""
    return x[:1].expand_as(x)


def uniform(run: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform noise of variance 1."""
    return run.uniform_(-math.sqrt(3), math.sqrt(3), generator=generator)


@dataclass(frozen=True)
class Planted:
    """A defect in words, the check that must find it, and the model."""

    defect: str
    check: str
    make: Callable[[], SmoothedClassifier]
    settings: AuditSettings = FEW


def _single(step: Step, classifier: nn.Module | None = None) -> SmoothedClassifier:
    return SmoothedClassifier(compose(step), last, classifier or network())


PLANTED = (
    Planted("a forward hook that changes X before the noise", "model check", hooked),
    Planted("a scale with the wrong number of coordinates", "likelihood ratio",
            lambda: two_steps(PerPixel(SIGMA, Mask()))),
    Planted("one noise for two steps", "likelihood ratio", lambda: two_steps(Again(SIGMA, Mask()))),
    Planted("uniform noise with the guarantee of normal noise", "operating points", lambda: _single(Own(uniform))),
    Planted("a radius that is a tenth too large", "radius", lambda: _single(Generous(SIGMA))),
    Planted("noise shared inside a batch", "votes", lambda: _single(Noise(shared))),
    Planted("no noise", "noise", lambda: two_steps(Noise(torch.zeros_like))),
    Planted("a quarter of the noise", "noise", lambda: two_steps(Noise(lambda noise: noise / 4))),
    Planted("noise clamped at 4 deviations", "noise", lambda: two_steps(Noise(lambda noise: noise.clamp(-4, 4)))),
    Planted("bf16 noise", "low bits", lambda: two_steps(Noise(lambda noise: noise.bfloat16().float()))),
    Planted("exact mode with float noise", "low bits", lambda: _single(Unrounded(SIGMA)), EXACT),
    Planted("batch statistics in batches of 32 or more", "batches",
            lambda: two_steps(classifier=network(BatchStatistics()))),
    Planted("a mask that sees X", "masks", lambda: two_steps(Peeking(SIGMA, Mask()))),
    Planted("dropout in eval mode", "eval mode", lambda: two_steps(classifier=network(Dropout()))),
    Planted("a deviation that autocast rounds to bf16", "autocast", lambda: two_steps(Product(SIGMA, Mask()))),
    Planted("a network that changes after 100 images", "drift", lambda: two_steps(classifier=network(Remembers()))),
)  # fmt: skip
