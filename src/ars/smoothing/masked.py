"""M2: the masked Gaussian mechanism of Prop. 2.4."""

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from ars.smoothing.combine import minimum_variance
from ars.smoothing.exact import exact_release
from ars.smoothing.gaussian import Gaussian, refuse_changes
from ars.smoothing.mechanism import Generators, Images, Release, normal_like
from ars.theory import Ball, TradeOff, UnsupportedThreat
from ars.theory.exact import MASKED_UNITS, MOST_NOISE, SAFE, exact_masked

# Below this the noise no longer shrinks with the mask: more noise is sound, and an all-zero mask does not divide by 0.
LEAST_RMS = 1e-3


class MaskedGaussian(Gaussian):
    """m = w * X + z, z ~ N(0, (||w||^2 / d) sigma^2 I), w = mask(what the earlier steps released).

    The mask sees the minimum-variance combination of the earlier releases (after one Gaussian step: m1 itself).
    As a first step it sees an image of zeros, which suits only a static mask. The mask gives one weight in [0, 1] per
    pixel, [b, 1, h, w] broadcast over the channels, or one per coordinate, [b, c, h, w]. sigma is the standard
    deviation that the noise would have at w = 1.

    In exact mode each coordinate is released as X + (s/w) z in whole UNITS, which is the same look rounded:
    sum_i e_i^2 w_i^2 / s^2 bounds the privacy loss as before (ars.theory.exact).
    """

    def __init__(self, sigma: float, mask: nn.Module, *, exact: bool = False) -> None:
        super().__init__(sigma, exact=exact)
        if not isinstance(mask, nn.Module):
            raise TypeError(f"the mask must be a torch.nn.Module, got {type(mask).__name__}; wrap it in one")
        self.mask = mask

    def release(self, x: Images, past: Sequence[Release], generator: Generators) -> Release:
        """Sample w * X + s z with s = sigma ||w|| / sqrt(d), the norm over all d coordinates."""
        seen = minimum_variance(past) if past else torch.zeros_like(x)
        weight = self.mask(seen)
        if not isinstance(weight, torch.Tensor):
            raise ValueError(f"the mask must give a tensor of weights, got {type(weight).__name__}")
        weight = weight.float()
        _check_shape(weight, x)
        if self.exact:
            return self._exact_release(x, weight.double(), generator)
        # the mean over all d coordinates: a weight shared by the channels counts once per channel
        # contiguous, because torch sums strided rows one element at a time, with errors up to 1e-3
        square = weight.square().flatten(1).contiguous().mean(dim=1).view(-1, 1, 1, 1)
        std = self.scale() * square.clamp_min(LEAST_RMS**2).sqrt()
        return Release(weight * x.float() + std * normal_like(x, generator), weight=weight, std=std)

    def _exact_release(self, x: Images, weight: torch.Tensor, generator: Generators) -> Release:
        square = weight.square().flatten(1).contiguous().mean(dim=1).view(-1, 1, 1, 1)
        std = self.sigma * (1 + SAFE) * square.clamp_min(LEAST_RMS**2).sqrt()
        shown = weight * (MOST_NOISE * self.sigma) >= std
        factor = torch.where(shown, weight, 1.0)
        value = factor * exact_release(x, std / factor, generator, units=MASKED_UNITS, shown=shown)
        return Release(value.float(), weight=(weight * shown).float(), std=std.float())

    def use_exact(self) -> None:
        """Switch to exact mode; refuses a subclass with its own noise or guarantee."""
        refuse_changes(self, MaskedGaussian)
        self.exact = True

    def guarantee(self, ball: Ball) -> TradeOff:
        """||w * e||_2 <= ||w||_2 ||e||_inf, so mu = sqrt(d) r / sigma whatever the mask (Prop. 2.4); Linf only."""
        if ball.norm != "linf":
            raise UnsupportedThreat(
                f"MaskedGaussian covers 'linf' (Prop. 2.4), got {ball.norm!r}: inside an L2 ball all of e can sit "
                "where the mask is 1; certify 'linf', or use Gaussian steps for 'l2'"
            )
        if self.exact:
            return exact_masked(self.sigma, ball)
        return super().guarantee(ball)


def _check_shape(weight: torch.Tensor, x: Images) -> None:
    batch, channels, height, width = x.shape
    if weight.shape not in ((batch, 1, height, width), (batch, channels, height, width)):
        raise ValueError(
            f"the mask must give [{batch}, 1 or {channels}, {height}, {width}] weights for images of shape "
            f"{list(x.shape)}, got {list(weight.shape)}"
        )


class WeightRange:
    """The range of all mask weights seen, kept on the device to avoid waiting for it.

    The guarantee holds for any weights, but weights outside [0, 1] or NaN are a defect of the mask network.
    """

    def __init__(self) -> None:
        self._bounds: torch.Tensor | None = None

    def add(self, steps: Iterable[nn.Module], releases: Sequence[Release]) -> None:
        """Add the weights of the masked steps among these."""
        for step, release in zip(steps, releases, strict=True):
            if isinstance(step, MaskedGaussian):
                low, high = torch.aminmax(release.weight)
                if self._bounds is not None:  # minimum and maximum keep a NaN
                    low, high = torch.minimum(low, self._bounds[0]), torch.maximum(high, self._bounds[1])
                self._bounds = torch.stack([low, high])

    def check(self) -> None:
        """Refuse masks with weights outside [0, 1]; waits for the device."""
        if self._bounds is None:
            return
        low, high = self._bounds.tolist()
        if not (low >= 0 and high <= 1):  # NaN fails both
            raise ValueError(f"the mask must lie in [0, 1], got values from {low} to {high}; end it in a sigmoid")
