"""A noise budget split over two steps, with a learned share of the first (Sec. 3)."""

import torch
from scipy.special import expit
from torch import Tensor, nn

from ars.smoothing.gaussian import Gaussian, check_sigma
from ars.smoothing.masked import MaskedGaussian
from ars.smoothing.mechanism import SCALE_ERROR
from ars.theory import noise_of_share, split_noise

# Keep both noise levels bounded: a share beyond these limits would gain the other step 1% and ruin this one.
LEAST, MOST = 0.02, 0.98


class LearnedSplit(nn.Module):
    """share = LEAST + (MOST - LEAST) sigmoid(logit): no logit, however large, leaves sigma < sigma_1 < inf.

    The stated numbers (share, sigmas) are computed in float64 from the stored logit, as for a fixed share. The scale of
    the noise is computed in float32 on the device, with gradients and without waiting for it. Its error is less than
    SCALE_ERROR, which is added, so the noise is never below the stated level.
    """

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self.sigma = check_sigma(sigma)
        self.logit = nn.Parameter(torch.zeros(()))

    @property
    def share(self) -> float:
        """The first step's share of the budget, as a plain number; waits for the device."""
        return LEAST + (MOST - LEAST) * float(expit(float(self.logit.detach())))

    @property
    def sigmas(self) -> tuple[float, float]:
        """(sigma_1, sigma_2) that together spend the budget of sigma; sigma_2 is rounded up."""
        return split_noise(self.sigma, first=noise_of_share(self.sigma, self.share))

    def scale(self, step: int) -> Tensor:
        """The factor of the noise of step 0 or 1, in float32 with a gradient; at least sigmas[step]."""
        logit = self.logit.float()
        # 1 - share is the same function of -logit; a difference would lose digits
        part = LEAST + (MOST - LEAST) * torch.sigmoid(-logit if step else logit)
        return self.sigma * (1 + SCALE_ERROR) / part.sqrt()


class SplitGaussian(Gaussian):
    """The first step of a learned split, which owns the split."""

    def __init__(self, split: LearnedSplit) -> None:
        super().__init__(split.sigma)
        self.split = split

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise at the current share."""
        return self.split.sigmas[0]

    def scale(self) -> Tensor:
        """The factor of the noise, at least sigma."""
        return self.split.scale(0)


class SplitMasked(MaskedGaussian):
    """The second step of a learned split."""

    def __init__(self, split: LearnedSplit, mask: nn.Module) -> None:
        super().__init__(split.sigma, mask)
        self._split = (split,)  # in a tuple, so that its parameter belongs to the first step only

    @property
    def sigma(self) -> float:
        """The standard deviation that the noise would have at w = 1, at the current share."""
        return self._split[0].sigmas[1]

    def scale(self) -> Tensor:
        """The factor of the noise at w = 1, at least sigma."""
        return self._split[0].scale(1)
