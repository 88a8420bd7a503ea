"""ARS, the paper's two-step defence against Linf (Sec. 3, Prop. 2.4)."""

from torch import nn

from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, minimum_variance
from ars.theory import noise_of_share, split_noise


def adaptive(classifier: nn.Module, mask: nn.Module, *, sigma: float, share: float = 0.5) -> SmoothedClassifier:
    """A first look at X chooses the mask, a second looks where the mask says; g sees the average of both.

    Both together cost as much as one look with noise sigma; share of that goes into the first (paper: half).
    """
    first, second = split_noise(sigma, first=noise_of_share(sigma, share))
    return SmoothedClassifier(compose(Gaussian(first), MaskedGaussian(second, mask)), minimum_variance, classifier)
