"""Noise in whole units for exact mode; ars.theory.exact states the sampler's model and what it is charged."""

import math

import torch
from torch import Tensor

from ars.smoothing.mechanism import Generators, Images, draw_like
from ars.theory.exact import LEVEL_BITS

SAFE = 1e-9
"""Noise scales in float64 are increased by this share, far more than their rounding errors."""


def exact_normal_like(x: Images, generator: Generators) -> Tensor:
    """Standard normal noise in float64 by inversion: z = sqrt(2) erfinv((2 k + 1) 2^-53 - 1), k uniform."""

    def draw(run: Tensor, run_generator: torch.Generator) -> Tensor:
        return run.random_(0, 2**LEVEL_BITS, generator=run_generator)

    # an odd whole number below 2^53 is exact in float64, and so is its product with a power of two
    odd = draw_like(x, generator, draw, dtype=torch.int64).mul_(2).sub_(2**LEVEL_BITS - 1)
    return odd.double().mul_(2.0**-LEVEL_BITS).erfinv_().mul_(math.sqrt(2))


def exact_release(
    x: Images, scale: Tensor, generator: Generators, *, units: int, shown: Tensor | None = None
) -> Tensor:
    """([X] + round(units scale z)) / units in float64, [X] = round(units X); where shown is 0, the noise alone."""
    noise = exact_normal_like(x, generator).mul_(units * scale).round_()
    levels = (units * x.double()).round()
    return noise.add_(levels if shown is None else levels * shown).div_(units)
