"""A noise budget that two steps share, with the share of the first one learned (Sec. 3)."""

import torch
from scipy.special import expit
from torch import Tensor, nn

from ars.smoothing.gaussian import Gaussian, check_sigma
from ars.smoothing.masked import MaskedGaussian
from ars.smoothing.mechanism import SCALE_ERROR
from ars.theory import noise_of_share, split_noise

# Neither step's noise runs away: the last hundredths of a share change the other step by 1% and cost this one all.
LEAST, MOST = 0.02, 0.98


class LearnedSplit(nn.Module):
    """share = LEAST + (MOST - LEAST) sigmoid(logit): no logit, however large, leaves sigma < sigma_1 < inf.

    What is stated (share, sigmas) is computed in float64 from the stored logit, the same numbers as for a share that
    is fixed. What scales the noise is computed in float32 on the device, with gradients and without waiting for the
    host: it errs by less than SCALE_ERROR, which is added, so the noise is never below what is stated.

    >>> LearnedSplit(0.5).share
    0.5
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
        """(sigma_1, sigma_2) that together cost as much as sigma, sigma_2 rounded up."""
        return split_noise(self.sigma, first=noise_of_share(self.sigma, self.share))

    def scale(self, step: int) -> Tensor:
        """What step 0 or 1 scales its noise with, in float32 with a gradient; not below sigmas[step]."""
        logit = self.logit.float()
        # 1 - share is the same map of -logit, which loses no digits as a difference would
        part = LEAST + (MOST - LEAST) * torch.sigmoid(-logit if step else logit)
        return self.sigma * (1 + SCALE_ERROR) / part.sqrt()


class SplitGaussian(Gaussian):
    """The first step of a learned split, which owns the split."""

    def __init__(self, split: LearnedSplit) -> None:
        super().__init__(split.sigma)
        self.split = split

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise at the share that was learned so far."""
        return self.split.sigmas[0]

    def scale(self) -> Tensor:
        """What the noise is multiplied with, not below sigma."""
        return self.split.scale(0)


class SplitMasked(MaskedGaussian):
    """The second step of a learned split."""

    def __init__(self, split: LearnedSplit, mask: nn.Module) -> None:
        super().__init__(split.sigma, mask)
        self._split = (split,)  # in a tuple: a parameter of the first step, not one of this step too

    @property
    def sigma(self) -> float:
        """The standard deviation that the noise would have at w = 1, at the share that was learned so far."""
        return self._split[0].sigmas[1]

    def scale(self) -> Tensor:
        """What the noise at w = 1 is multiplied with, not below sigma."""
        return self._split[0].scale(1)
