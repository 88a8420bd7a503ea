"""M1: the Gaussian mechanism, X + N(0, sigma^2 I)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ars.smoothing.exact import exact_release
from ars.smoothing.mechanism import SCALE_ERROR, Generators, Images, Release, Step, normal_like
from ars.theory import Ball, TradeOff
from ars.theory.exact import SAFE, UNITS, exact_gaussian
from ars.theory.rounding import as_number, up
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
    """m = X + z, z ~ N(0, sigma^2 I); ignores the earlier releases.

    In exact mode X and the noise are rounded to whole UNITS, so that the proof holds in float arithmetic too
    (ars.theory.exact).
    """

    def __init__(self, sigma: float, *, exact: bool = False) -> None:
        super().__init__()
        self._sigma = check_sigma(sigma)
        if exact:
            self.use_exact()

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
        if self.exact:
            std = self.sigma * (1 + SAFE) * one.double()
            return Release(exact_release(x, std, generator, units=UNITS).float(), weight=one, std=std.float())
        std = self.scale() * one
        return Release(x.float() + std * normal_like(x, generator), weight=one, std=std)

    def use_exact(self) -> None:
        """Switch to exact mode; refuses a subclass with its own noise or guarantee."""
        refuse_changes(self, Gaussian)
        self.exact = True

    def guarantee(self, ball: Ball) -> TradeOff:
        """G_mu with mu = ||e||_2 / sigma (Dong et al., Thm 2.7), sqrt(d) r / sigma for an Linf ball (Eq. 4)."""
        if self.exact:
            return exact_gaussian(self.sigma, ball)
        return GaussianTradeOff(up(ball.l2_radius / self.sigma))


def refuse_changes(step: Gaussian, known: type[Gaussian]) -> None:
    """Refuse exact mode for a step that does not release and guarantee as a known one does."""
    for name in ("release", "guarantee", "radius"):
        if getattr(type(step), name) is not getattr(known, name) or name in vars(step):
            raise ValueError(
                f"{type(step).__name__} has its own {name}(), for which there is no exact mode; Gaussian and "
                "MaskedGaussian have one"
            )
