"""The one idea of the library: a mechanism is a sampler and its guarantee in one object."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.theory import Ball, Norm, TradeOff, certified_radius

Images = Float[Tensor, "b c h w"]
# A noise scale computed in float32 may come out this much too small, relatively; it is scaled up past that.
SCALE_ERROR = 1e-6


@dataclass(frozen=True)
class Rows:
    """The generator of a larger batch, of which these images are every parts-th, from the part-th on.

    Each part gets the very noise that it would get in the whole batch, so processes that share one agree with one
    process and never repeat each other. That holds for a run of the batch and for several copies of it too: taken
    so, a run of a part is the part of a run.
    """

    generator: torch.Generator
    part: int
    parts: int


# One generator for the whole batch, or several, each for an equal run of the batch's images, or that of a larger batch.
Fresh = torch.Generator | Sequence[torch.Generator] | Rows
# Those, or noise to draw again.
Generators = Union[Fresh, "Tape"]


@dataclass(frozen=True)
class Release:
    """What one step lets out about X: value = weight * X + std * z, z of mean 0 and variance 1."""

    value: Float[Tensor, "b c h w"]
    weight: Float[Tensor, "#b #c #h #w"]
    std: Float[Tensor, "#b 1 1 1"]


def one_batch(parts: "Sequence[Sequence[Release]]") -> list[Release]:
    """The releases of several batches, step by step, as those of one."""

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
    """A noisy look at X that may depend on the earlier looks, and the proof of how little it shows."""

    @abstractmethod
    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample this step's release, independently for every image of the batch.

        Nothing but the returned value may depend on x; past holds the releases of the earlier steps.

        The generator is handed on to ars.draw_like (ars.normal_like for standard normal noise), which knows what it is:
        one for the batch, one for each of several runs of images, that of a batch which processes share, or noise to
        play again. Noise that is drawn otherwise may be shared by draws, and then no bound on their votes holds.
        """

    @abstractmethod
    def guarantee(self, ball: Ball) -> TradeOff:
        """The trade-off function between this step's releases at X and at X + e, for every e in the ball."""

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """The certified radius of this step alone: Prop. 2.1 on the guarantee, unless a step knows a better way."""
        return certified_radius(self.guarantee, p_plus, p_minus, norm=norm, dim=dim)

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The noise budget of the step, as the record states it."""


Draw = Callable[[Tensor, torch.Generator], Tensor]


class Tape:
    """Noise that is drawn once and then played again, for training against one set of draws; never to count votes.

    The noise is kept, not the generator's state: that could not be put back inside a captured CUDA graph, where the
    host no longer runs, and noise that is drawn by rejection would be drawn each time.
    """

    def __init__(self, generator: Fresh) -> None:
        self.generator = generator
        self.noise: list[Images] = []
        self.played = 0

    def rewound(self) -> "Tape":
        """This tape, from the start."""
        self.played = 0
        return self

    def play(self, x: Images, draw: Draw) -> Images:
        """The next noise for images shaped like x, drawn where the tape is new."""
        if self.played == len(self.noise):
            self.noise.append(draw_like(x, self.generator, draw))
        noise = self.noise[self.played]
        if noise.shape != x.shape:
            raise ValueError(f"the tape holds noise of shape {list(noise.shape)}, the images have {list(x.shape)}")
        self.played += 1
        return noise


def draw_like(x: Images, generator: Generators, draw: Draw) -> Images:
    """Fill a float32 tensor shaped like x with what draw(tensor to fill, generator) returns.

    >>> def uniform(run, generator):
    ...     return run.uniform_(-1, 1, generator=generator)
    >>> draw_like(torch.zeros(2, 3, 8, 8), torch.Generator().manual_seed(0), uniform).shape
    torch.Size([2, 3, 8, 8])

    With several generators the batch is cut into equal runs, one a generator: the noise of a run does not depend
    on what else is in the batch. With Rows the noise of the larger batch is drawn, and the images' own rows are kept.
    """
    if isinstance(generator, Tape):
        return generator.play(x, draw)
    if isinstance(generator, Rows):
        whole = torch.empty((generator.parts * len(x), *x.shape[1:]), dtype=torch.float32, device=x.device)
        return _drawn(draw, whole, generator.generator)[generator.part :: generator.parts]
    noise = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    if isinstance(generator, torch.Generator):
        return _drawn(draw, noise, generator)
    if not generator or len(x) % len(generator):
        raise ValueError(f"a batch of {len(x)} images cannot be shared evenly by {len(generator)} generators")
    for run, run_generator in zip(noise.chunk(len(generator)), generator, strict=True):
        run.copy_(_drawn(draw, run, run_generator))
    return noise


def _drawn(draw: Draw, run: Images, generator: torch.Generator) -> Images:
    """Refuse noise of another shape: what is spread over a run would be shared by its draws."""
    noise = draw(run, generator)
    if not isinstance(noise, Tensor) or noise.shape != run.shape:
        got = list(noise.shape) if isinstance(noise, Tensor) else type(noise).__name__
        raise ValueError(f"noise must be drawn in the shape of the tensor to fill, {list(run.shape)}, got {got}")
    return noise


def normal_like(x: Images, generator: Generators) -> Images:
    """Standard normal noise in float32, a fresh draw for every coordinate of every image."""
    return draw_like(x, generator, lambda run, run_generator: run.normal_(generator=run_generator))
