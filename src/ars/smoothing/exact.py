"""Noise in integers for exact mode; ars.theory.exact states the sampler's model and what it is charged."""

import math

import torch
from torch import Tensor

from ars.smoothing.mechanism import Generators, Images, draw_like
from ars.theory.exact import LEVEL_BITS, LEVELS, ON_GRID

SAFE = 1e-9
"""Noise scales in float64 are increased by this share, far more than their rounding errors."""


def levels_of(x: Images) -> Tensor:
    """The whole numbers of 255ths nearest to the pixels, in float64."""
    return (LEVELS * x.double()).round()


def check_on_grid(x: Images) -> None:
    """Refuse images that are not made of 8-bit levels: exact mode certifies the rounded image in their place."""
    farthest = float((levels_of(x) / LEVELS - x.double()).abs().max())
    if farthest > ON_GRID:
        raise ValueError(
            f"exact mode needs images of 8-bit levels, k/255, and a pixel here is {farthest:.2g} away from one; "
            "round the images with (255 * x).round() / 255, or certify without exact mode"
        )


def exact_normal_like(x: Images, generator: Generators) -> Tensor:
    """Standard normal noise in float64 by inversion: z = sqrt(2) erfinv((k + 1/2) 2^-51 - 1), k uniform."""

    def draw(run: Tensor, run_generator: torch.Generator) -> Tensor:
        return run.random_(0, 2**LEVEL_BITS, generator=run_generator)

    # every number below is exact in float64: 2 k + 1 has 53 bits, and the difference loses none
    uniform = draw_like(x, generator, draw, dtype=torch.int64).double()
    return uniform.add_(0.5).mul_(2.0 ** (1 - LEVEL_BITS)).sub_(1).erfinv_().mul_(math.sqrt(2))


def exact_release(x: Images, scale: Tensor, generator: Generators, *, shown: Tensor | None = None) -> Tensor:
    """X + round(255 scale z) / 255 in float64; where shown is 0, the noise alone. x is taken as its levels."""
    noise = exact_normal_like(x, generator).mul_(LEVELS * scale).round_()
    levels = levels_of(x) if shown is None else levels_of(x) * shown
    return noise.add_(levels).div_(LEVELS)
