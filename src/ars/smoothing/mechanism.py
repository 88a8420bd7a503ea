"""The one idea of the library: a mechanism is a sampler and its guarantee in one object."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.theory import Ball, Norm, TradeOff, certified_radius

Images = Float[Tensor, "b c h w"]
# A noise scale computed in float32 may come out this much too small, relatively; it is scaled up past that.
SCALE_ERROR = 1e-6


@dataclass(frozen=True)
class Rows:
    """The generator of a larger batch, of which these images are the part-th of several equal runs.

    Each part gets the very noise that it would get in the whole batch, so processes that share one agree with one
    process and never repeat each other.
    """

    generator: torch.Generator
    part: int
    parts: int


# One generator for the whole batch, or several, each for an equal run of the batch's images, or that of a larger batch.
Generators = torch.Generator | Sequence[torch.Generator] | Rows


@dataclass(frozen=True)
class Release:
    """What one step lets out about X: value = weight * X + std * z, z of mean 0 and variance 1."""

    value: Float[Tensor, "b c h w"]
    weight: Float[Tensor, "#b #c #h #w"]
    std: Float[Tensor, "#b 1 1 1"]


class Step(nn.Module, ABC):
    """A noisy look at X that may depend on the earlier looks, and the proof of how little it shows."""

    @abstractmethod
    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample this step's release, independently for every image of the batch.

        Nothing but the returned value may depend on x; past holds the releases of the earlier steps.
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


def draw_like(x: Images, generator: Generators, draw: Callable[[Tensor, torch.Generator], Tensor]) -> Images:
    """Fill a float32 tensor shaped like x with what draw(tensor to fill, generator) returns.

    With several generators the batch is cut into equal runs, one a generator: the noise of a run does not depend
    on what else is in the batch. With Rows the noise of the larger batch is drawn, and the images' own rows are kept.
    """
    if isinstance(generator, Rows):
        whole = torch.empty((generator.parts * len(x), *x.shape[1:]), dtype=torch.float32, device=x.device)
        return draw(whole, generator.generator).chunk(generator.parts)[generator.part]
    noise = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    if isinstance(generator, torch.Generator):
        return draw(noise, generator)
    if not generator or len(x) % len(generator):
        raise ValueError(f"a batch of {len(x)} images cannot be shared evenly by {len(generator)} generators")
    for run, run_generator in zip(noise.chunk(len(generator)), generator, strict=True):
        run.copy_(draw(run, run_generator))
    return noise


def normal_like(x: Images, generator: Generators) -> Images:
    """Standard normal noise in float32, a fresh draw for every coordinate of every image."""
    return draw_like(x, generator, lambda run, run_generator: run.normal_(generator=run_generator))
