"""The one idea of the library: a mechanism is a sampler and its guarantee in one object.

A Step releases a noisy look at X. A Composition runs several, and the combination makes one image of their releases.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.theory import Ball, Norm, TradeOff, certified_radius
from ars.theory import compose as compose_tradeoffs

Images = Float[Tensor, "b c h w"]
# The relative error of a noise scale computed in float32; scales are increased by this much to be on the safe side.
SCALE_ERROR = 1e-6


@dataclass(frozen=True)
class Rows:
    """The generator of a larger batch, of which these images are every parts-th, starting at number part.

    Each part gets exactly the noise that it would get in the whole batch. Processes that share a batch therefore agree
    with a single process and never repeat noise. This also holds for runs of a batch and for several copies of it.
    """

    generator: torch.Generator
    part: int
    parts: int


# One generator for the whole batch, or several for equal runs of its images, or the generator of a larger batch.
Fresh = torch.Generator | Sequence[torch.Generator] | Rows
# Those, or recorded noise.
Generators = Union[Fresh, "Tape"]


@dataclass(frozen=True)
class Release:
    """What one step reveals about X: value = weight * X + std * z, z of mean 0 and variance 1."""

    value: Float[Tensor, "b c h w"]
    weight: Float[Tensor, "#b #c #h #w"]
    std: Float[Tensor, "#b 1 1 1"]


def repeated(release: Release, times: int) -> Release:
    """A release of one image, as if several draws had made it."""
    return Release(*(part.expand(times, -1, -1, -1) for part in (release.value, release.weight, release.std)))


def one_batch(parts: "Sequence[Sequence[Release]]") -> list[Release]:
    """The releases of several batches, concatenated step by step."""

    def rows(release: Release, part: Tensor) -> Tensor:
        return part.expand(len(release.value), *part.shape[1:])

    return [
        Release(
            torch.cat([release.value for release in step]),
            torch.cat([rows(release, release.weight) for release in step]),
            torch.cat([rows(release, release.std) for release in step]),
        )
        for step in zip(*parts, strict=True)
    ]


class Step(nn.Module, ABC):
    """A noisy look at X that may depend on the earlier looks, with a proof of how little it reveals."""

    @abstractmethod
    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample this step's release, independently for every image of the batch.

        Only the returned value may depend on x; past holds the releases of the earlier steps.

        Pass the generator on to ars.draw_like (ars.normal_like for standard normal noise), which handles all its forms:
        one for the batch, one per run of images, that of a batch shared by processes, or recorded noise. Draws might
        share noise that is drawn in any other way, and then no bound on their votes holds.
        """

    @abstractmethod
    def guarantee(self, ball: Ball) -> TradeOff:
        """The trade-off function between this step's releases at X and at X + e, for every e in the ball."""

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """The certified radius of this step alone: Prop. 2.1 on the guarantee, unless a step overrides it."""
        return certified_radius(self.guarantee, p_plus, p_minus, norm=norm, dim=dim)

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The noise budget of the step, as stated in the record."""

    exact = False
    """Whether the releases are drawn in whole units, so that the guarantee holds in float arithmetic too."""

    def use_exact(self) -> None:
        """Switch to exact mode."""
        raise ValueError(f"{type(self).__name__} has no exact mode; Gaussian and MaskedGaussian have one")


class Composition(nn.Module):
    """k adaptive steps (Thm 2.3): step j sees X and the releases of steps 1 to j - 1."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        if not steps:
            raise ValueError("a mechanism needs at least one step")
        for step in steps:
            if not isinstance(step, Step):
                raise TypeError(f"a mechanism is made of steps such as Gaussian(0.5), got {type(step).__name__}")
        self.steps = nn.ModuleList(steps)

    def release(self, x: Images, generator: Generators) -> list[Release]:
        """Sample every step in turn; the classifier may see all the releases."""
        releases: list[Release] = []
        for step in self.steps:
            release = cast(Step, step).release(x, releases, generator)
            _check_release(step, release, len(x))
            releases.append(release)
        return releases

    def guarantee(self, ball: Ball) -> TradeOff:
        """The composed guarantee of the steps."""
        return compose_tradeoffs(*(cast(Step, step).guarantee(ball) for step in self.steps))

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """The certified radius: that of a single step, or Prop. 2.1 on the composed guarantee."""
        if len(self.steps) == 1:
            return cast(Step, self.steps[0]).radius(p_plus, p_minus, norm=norm, dim=dim)
        return certified_radius(self.guarantee, p_plus, p_minus, norm=norm, dim=dim)

    def use_exact(self) -> None:
        """Switch every step to exact mode; refuses steps that have none."""
        for step in self.steps:
            cast(Step, step).use_exact()

    @property
    def exact(self) -> bool:
        """Whether every step is exact, and with it the guarantee of them all."""
        return all(cast(Step, step).exact for step in self.steps)

    @property
    def sigmas(self) -> tuple[float, ...]:
        """The noise budgets of the steps, in order."""
        return tuple(cast(Step, step).sigma for step in self.steps)


def _check_release(step: nn.Module, release: object, images: int) -> None:
    """Refuse an invalid release."""
    parts = (release.value, release.weight, release.std) if isinstance(release, Release) else ()
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        got = [type(part).__name__ for part in parts] or type(release).__name__
        raise TypeError(
            f"{type(step).__name__}.release must return ars.Release(value, weight, std), all three tensors, got {got}"
        )
    if len(parts[0]) != images:
        raise ValueError(f"{type(step).__name__}.release must release each image once, got {len(parts[0])} of {images}")


def compose(*steps: Step) -> Composition:
    """Run the steps one after another on the same X."""
    return Composition(steps)


Draw = Callable[[Tensor, torch.Generator], Tensor]


class Tape:
    """Noise that is drawn once and then replayed, for training against one set of draws; never used to count votes.

    The noise itself is stored. The generator's state could not be restored inside a captured CUDA graph, where no host
    code runs, and rejection sampling would be repeated on each replay.
    """

    def __init__(self, generator: Fresh) -> None:
        self.generator = generator
        self.noise: list[Images] = []
        self.played = 0

    def rewound(self) -> "Tape":
        """This tape, rewound to the start."""
        self.played = 0
        return self

    def play(self, x: Images, draw: Draw) -> Images:
        """The next noise for images shaped like x; it is drawn if nothing is recorded yet."""
        if self.played == len(self.noise):
            self.noise.append(draw_like(x, self.generator, draw))
        noise = self.noise[self.played]
        if noise.shape != x.shape:
            raise ValueError(f"the tape holds noise of shape {list(noise.shape)}, the images have {list(x.shape)}")
        self.played += 1
        return noise


def draw_like(x: Images, generator: Generators, draw: Draw, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Fill a tensor shaped like x with what draw(tensor to fill, generator) returns.

    >>> def uniform(run, generator):
    ...     return run.uniform_(-1, 1, generator=generator)
    >>> draw_like(torch.zeros(2, 3, 8, 8), torch.Generator().manual_seed(0), uniform).shape
    torch.Size([2, 3, 8, 8])

    With several generators the batch is cut into equal runs, one per generator: the noise of a run does not depend on
    the rest of the batch. With Rows, the noise of the larger batch is drawn and the rows of these images are kept.
    """
    if isinstance(generator, Tape):
        if dtype != torch.float32:
            raise ValueError("a tape records noise in float32 only, and exact mode draws whole numbers")
        return generator.play(x, draw)
    if isinstance(generator, Rows):
        whole = torch.empty((generator.parts * len(x), *x.shape[1:]), dtype=dtype, device=x.device)
        return _drawn(draw, whole, generator.generator)[generator.part :: generator.parts]
    noise = torch.empty(x.shape, dtype=dtype, device=x.device)
    if isinstance(generator, torch.Generator):
        return _drawn(draw, noise, generator)
    if not generator or len(x) % len(generator):
        raise ValueError(f"a batch of {len(x)} images cannot be shared evenly by {len(generator)} generators")
    for run, run_generator in zip(noise.chunk(len(generator)), generator, strict=True):
        run.copy_(_drawn(draw, run, run_generator))
    return noise


def _drawn(draw: Draw, run: Images, generator: torch.Generator) -> Images:
    """Draw the noise of a run; refuse another shape, since noise that is broadcast would be shared by the draws."""
    noise = draw(run, generator)
    if not isinstance(noise, Tensor) or noise.shape != run.shape:
        got = list(noise.shape) if isinstance(noise, Tensor) else type(noise).__name__
        raise ValueError(f"noise must be drawn in the shape of the tensor to fill, {list(run.shape)}, got {got}")
    return noise


def normal_like(x: Images, generator: Generators) -> Images:
    """Standard normal noise in float32, a fresh draw for every coordinate of every image."""
    return draw_like(x, generator, lambda run, run_generator: run.normal_(generator=run_generator))
