"""UniCR's noise: i.i.d. generalised normal, density proportional to exp(-|z/a|^beta)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ars.smoothing.gaussian import check_sigma
from ars.smoothing.mechanism import SCALE_ERROR, Generators, Images, Release, Step, draw_like, normal_like
from ars.theory import Ball, Norm, TradeOff, UnsupportedThreat
from ars.theory.composition import repeat
from ars.theory.generalised_normal import GeneralisedNormal as GeneralisedNormalTradeOff
from ars.theory.generalised_normal import check_shape, noise_scale
from ars.theory.rounding import up
from ars.theory.tradeoff import Gaussian as GaussianTradeOff
from ars.theory.unicr import unicr_radius_linf


class GeneralisedNormal(Step):
    """m = X + z, z of shape 1 <= beta <= 5 and deviation sigma; beta = 2 draws exactly as the Gaussian mechanism."""

    def __init__(self, sigma: float, beta: float) -> None:
        super().__init__()
        self._sigma = check_sigma(sigma)
        self.beta = check_shape(beta)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise, in pixel units."""
        return self._sigma

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample X + z."""
        one = torch.ones((1, 1, 1, 1), dtype=torch.float32, device=x.device)
        std = self.sigma * (1 + SCALE_ERROR) * one
        return Release(x.float() + std * generalised_normal_like(x, self.beta, generator), weight=one, std=std)

    def guarantee(self, ball: Ball) -> TradeOff:
        """The d-fold product of one coordinate's trade-off function at |e_i| = r, for Linf; G_mu for beta = 2."""
        if self.beta == 2:
            return GaussianTradeOff(up(ball.l2_radius / self.sigma))
        self._check_norm(ball.norm)
        shift = up(ball.radius / noise_scale(self.sigma, self.beta) * (1 + 1e-12))
        return repeat(GeneralisedNormalTradeOff(shift, self.beta), ball.dim)

    def radius(self, p_plus: float, p_minus: float, *, norm: Norm, dim: int) -> float:
        """The smaller of the differential and the composition bound (theory.unicr), from one table per dim."""
        if self.beta == 2:
            return super().radius(p_plus, p_minus, norm=norm, dim=dim)
        self._check_norm(norm)
        return unicr_radius_linf(self.sigma, self.beta, dim, p_plus, p_minus)

    def _check_norm(self, norm: Norm) -> None:
        if norm != "linf":
            raise UnsupportedThreat(
                f"generalised normal noise with beta={self.beta} covers 'linf', got {norm!r}: it is isotropic only for "
                "beta=2, and otherwise the worst direction of an L2 ball is not known; certify 'linf', or use beta=2 "
                "for 'l2'"
            )


def generalised_normal_like(x: Images, beta: float, generator: Generators) -> Images:
    """Noise of shape beta and variance 1 in float32: (a) U G^(1/beta), G ~ Gamma(1 + 1/beta) drawn by rejection.

    U is uniform on [-1, 1], so (|U| G^(1/beta))^beta is Gamma(1/beta). Gamma(1/beta) itself is not drawn: for large
    beta many of its values are too small for float32, and the noise would often be the same number.
    """
    if beta == 2:
        return normal_like(x, generator)
    scale = noise_scale(1.0, beta)

    def draw(run: Tensor, run_generator: torch.Generator) -> Tensor:
        power = torch._standard_gamma(torch.full_like(run, 1 + 1 / beta), generator=run_generator)
        uniform = torch.empty_like(run).uniform_(-1, 1, generator=run_generator)
        return power.pow_(1 / beta).mul_(uniform).mul_(scale)

    return draw_like(x, generator, draw)
