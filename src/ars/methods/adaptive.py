"""ARS, the paper's two-step defence against Linf (Sec. 3, Prop. 2.4)."""

from typing import Literal

from torch import nn

from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, minimum_variance
from ars.smoothing.split import LearnedSplit, SplitGaussian, SplitMasked
from ars.theory import noise_of_share, split_noise


def adaptive(
    classifier: nn.Module, mask: nn.Module, *, sigma: float, share: float | Literal["learned"] = 0.5
) -> SmoothedClassifier:
    """A first look at X chooses the mask, a second looks where the mask says; g sees the average of both.

    Both together cost as much as one look with noise sigma; share of that goes into the first (paper: half), or as
    much as training finds best ("learned", from half on).
    """
    if share == "learned":
        split = LearnedSplit(sigma)
        steps = compose(SplitGaussian(split), SplitMasked(split, mask))
    elif isinstance(share, str):
        raise ValueError(f"share must be a number strictly between 0 and 1, or 'learned', got {share!r}")
    else:
        first, second = split_noise(sigma, first=noise_of_share(sigma, share))
        steps = compose(Gaussian(first), MaskedGaussian(second, mask))
    return SmoothedClassifier(steps, minimum_variance, classifier)


def settled(model: SmoothedClassifier) -> SmoothedClassifier:
    """The model with plain numbers where a share was learned, sharing its networks; any other model as it is."""
    steps = list(model.mechanism.steps)
    if len(steps) == 2 and isinstance(steps[0], SplitGaussian) and isinstance(steps[1], SplitMasked):
        split, mask = steps[0].split, steps[1].mask
        return adaptive(model.classifier, mask, sigma=split.sigma, share=split.share).train(model.training)
    return model
