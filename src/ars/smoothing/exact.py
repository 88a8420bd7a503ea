"""Noise in whole units for exact mode; ars.theory.exact states the sampler's model and what it is charged."""

import math
from functools import cache

import torch
from torch import Tensor

from ars.smoothing.mechanism import Generators, Images, draw_like
from ars.theory.exact import EXACTLY, LEVEL_BITS, RELATIVE_ERROR


def exact_normal_like(x: Images, generator: Generators) -> Tensor:
    """Standard normal noise in float64 by inversion: z = sqrt(2) erfinv((2 k + 1) 2^-53 - 1), k uniform."""

    def draw(run: Tensor, run_generator: torch.Generator) -> Tensor:
        return run.random_(0, 2**LEVEL_BITS, generator=run_generator)

    check_sampler(x.device)
    return _invert(draw_like(x, generator, draw, dtype=torch.int64))


def _invert(k: Tensor) -> Tensor:
    """z of each k; changes k."""
    # an odd whole number below 2^53 is exact in float64, and so is its product with a power of two
    return k.mul_(2).sub_(2**LEVEL_BITS - 1).double().mul_(2.0**-LEVEL_BITS).erfinv_().mul_(math.sqrt(2))


@cache
def check_sampler(device: torch.device) -> None:
    """Refuse a device whose erfinv is not as accurate as the charge assumes; some CPU builds lose the tails."""
    k, exact = torch.tensor(list(EXACTLY), device=device), torch.tensor(list(EXACTLY.values()), dtype=torch.float64)
    # in a large batch, because a build may compute large and small ones in different ways
    found = _invert(torch.cat([k, 2**LEVEL_BITS - 1 - k]).repeat(100)).cpu().view(100, 2, -1)
    expected = torch.stack([exact, -exact]).expand_as(found)
    # 2^-52 of the allowance is for the product with a scale and for the rounding of the expected numbers
    if not ((found - expected).abs() <= (RELATIVE_ERROR - 2.0**-52) * expected.abs()).all():
        raise ValueError(f"torch's erfinv on {device} is too inaccurate for exact mode; use another build of torch")


def exact_release(
    x: Images, scale: Tensor, generator: Generators, *, units: int, shown: Tensor | None = None
) -> Tensor:
    """([X] + round(units scale z)) / units in float64, [X] = round(units X); where shown is 0, the noise alone."""
    noise = exact_normal_like(x, generator).mul_(units * scale).round_()
    levels = (units * x.double()).round()
    return noise.add_(levels if shown is None else levels * shown).div_(units)
