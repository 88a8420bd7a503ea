"""M1: the Gaussian mechanism, X + N(0, sigma^2 I)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ars.smoothing.mechanism import SCALE_ERROR, Generators, Images, Release, Step, normal_like
from ars.theory import Ball
from ars.theory.numbers import as_number, up
from ars.theory.tradeoff import Gaussian as GaussianTradeOff

LEAST_SIGMA = 1e-4
"""In pixel units: 1,600 steps of float32 at 1, where a pixel is largest."""


def check_sigma(sigma: float) -> float:
    """Refuse a noise level for which no guarantee holds."""
    sigma = as_number("sigma", sigma)
    if not 0 < sigma < math.inf:
        raise ValueError(f"sigma must be positive and finite, got {sigma}")
    if sigma < LEAST_SIGMA:
        raise ValueError(f"sigma must be at least {LEAST_SIGMA:g}, or the noise is lost in float32, got {sigma}")
    return sigma


class Gaussian(Step):
    """m = X + z, z ~ N(0, sigma^2 I); ignores the earlier releases."""

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self._sigma = check_sigma(sigma)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise, in pixel units."""
        return self._sigma

    def scale(self) -> float | Tensor:
        """The factor of the noise: at least sigma, even after rounding to float32."""
        return self.sigma * (1 + SCALE_ERROR)

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample X + sigma z."""
        one = torch.ones((1, 1, 1, 1), dtype=torch.float32, device=x.device)
        std = self.scale() * one
        return Release(x.float() + std * normal_like(x, generator), weight=one, std=std)

    def guarantee(self, ball: Ball) -> GaussianTradeOff:
        """G_mu with mu = ||e||_2 / sigma (Dong et al., Thm 2.7), sqrt(d) r / sigma for an Linf ball (Eq. 4)."""
        return GaussianTradeOff(up(ball.l2_radius / self.sigma))
