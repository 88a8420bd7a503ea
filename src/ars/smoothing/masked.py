"""M2: the masked Gaussian mechanism of Prop. 2.4."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import nn

from ars.smoothing.averaging import minimum_variance
from ars.smoothing.gaussian import check_sigma
from ars.smoothing.mechanism import SCALE_ERROR, Generators, Images, Release, Step, normal_like
from ars.theory import Ball, UnsupportedThreat
from ars.theory.rounding import up
from ars.theory.tradeoff import Gaussian as GaussianTradeOff

# Below this the noise no longer shrinks with the mask: more noise is sound, and an all-zero mask divides nothing by 0.
LEAST_RMS = 1e-3
# Least and largest weights of masks that are still to be checked; None where they are checked at once.
_PENDING: ContextVar[list[torch.Tensor] | None] = ContextVar("pending", default=None)


class MaskedGaussian(Step):
    """m = w * X + z, z ~ N(0, (||w||^2 / d) sigma^2 I), w = mask(what the earlier steps released).

    The mask sees the minimum-variance combination of the earlier releases (after one Gaussian step: m1 itself);
    with no earlier step it sees an image of zeros, so that only a static mask makes sense there. It gives one
    weight in [0, 1] a pixel, [b, 1, h, w] broadcast over the channels, or one a coordinate, [b, c, h, w].
    """

    def __init__(self, sigma: float, mask: nn.Module) -> None:
        super().__init__()
        if not isinstance(mask, nn.Module):
            raise TypeError(f"the mask must be a torch.nn.Module, got {type(mask).__name__}; wrap it in one")
        self._sigma = check_sigma(sigma)
        self.mask = mask

    @property
    def sigma(self) -> float:
        """The standard deviation that the noise would have at w = 1, in pixel units."""
        return self._sigma

    def scale(self) -> float | torch.Tensor:
        """What the noise at w = 1 is multiplied with: not below sigma, also not after rounding to float32."""
        return self.sigma * (1 + SCALE_ERROR)

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample w * X + s z with s = sigma ||w|| / sqrt(d), the norm over all d coordinates."""
        seen = minimum_variance(past) if past else torch.zeros_like(x)
        weight = self.mask(seen)
        if not isinstance(weight, torch.Tensor):
            raise ValueError(f"the mask must give a tensor of weights, got {type(weight).__name__}")
        weight = weight.float()
        check_mask(weight, x)
        # the mean over all d coordinates: a weight shared by the channels counts once for each of them
        # in rows, because where other images lie between its weights torch adds them up one by one, and errs by 1e-3
        square = weight.square().flatten(1).contiguous().mean(dim=1).view(-1, 1, 1, 1)
        std = self.scale() * square.clamp_min(LEAST_RMS**2).sqrt()
        return Release(weight * x.float() + std * normal_like(x, generator), weight=weight, std=std)

    def guarantee(self, ball: Ball) -> GaussianTradeOff:
        """||w * e||_2 <= ||w||_2 ||e||_inf, so mu = sqrt(d) r / sigma whatever the mask (Prop. 2.4); Linf only."""
        if ball.norm != "linf":
            raise UnsupportedThreat(
                f"MaskedGaussian covers 'linf' (Prop. 2.4), got {ball.norm!r}: inside an L2 ball all of e can sit "
                "where the mask is 1; certify 'linf', or use Gaussian steps for 'l2'"
            )
        return GaussianTradeOff(up(ball.l2_radius / self.sigma))


def check_mask(weight: torch.Tensor, x: Images) -> None:
    """Refuse a mask of the wrong shape or, outside training and what is compiled, with weights that are not in [0, 1].

    In training a NaN reaches the loss, where the trainer reports it.
    """
    batch, channels, height, width = x.shape
    if weight.shape not in ((batch, 1, height, width), (batch, channels, height, width)):
        raise ValueError(
            f"the mask must give [{batch}, 1 or {channels}, {height}, {width}] weights for images of shape "
            f"{list(x.shape)}, got {list(weight.shape)}"
        )
    captured = weight.is_cuda and torch.cuda.is_current_stream_capturing()  # a step of training with a frozen mask
    if weight.requires_grad or captured or torch.compiler.is_compiling():
        return
    bounds = torch.stack(torch.aminmax(weight))
    pending = _PENDING.get()
    if pending is None:
        _check_range(bounds)
    elif pending:
        # minimum and maximum keep a NaN
        pending[0] = torch.stack([torch.minimum(pending[0][0], bounds[0]), torch.maximum(pending[0][1], bounds[1])])
    else:
        pending.append(bounds)


@contextmanager
def masks_checked_at_the_end() -> Iterator[None]:
    """Collect the range of all masks on the device and check it once, on leaving: no mask waits for the host."""
    pending: list[torch.Tensor] = []
    token = _PENDING.set(pending)
    try:
        yield
    finally:
        _PENDING.reset(token)
    for bounds in pending:
        _check_range(bounds)


def _check_range(bounds: torch.Tensor) -> None:
    low, high = bounds.tolist()
    if not (low >= 0 and high <= 1):  # NaN fails both
        raise ValueError(f"the mask must lie in [0, 1], got values from {low} to {high}; end it in a sigmoid")
