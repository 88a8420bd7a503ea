"""ARS, the paper's two-step defence against Linf (Sec. 3, Prop. 2.4)."""

from typing import Literal

from torch import nn

from ars.methods.builder import Inputs, MethodSettings
from ars.models import UNet
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, minimum_variance
from ars.smoothing.split import LearnedSplit, SplitGaussian, SplitMasked
from ars.theory import noise_of_share, split_noise


def adaptive(
    classifier: nn.Module, mask: nn.Module, *, sigma: float, share: float | Literal["learned"] = 0.5
) -> SmoothedClassifier:
    """A first noisy look at X chooses the mask, a second look is masked, and g sees the average of both.

    Both together spend the budget of one look with noise sigma. The first step gets this share of it (paper: half);
    "learned" optimises the share in training, starting at half.
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


def fix_split(model: SmoothedClassifier) -> SmoothedClassifier:
    """The model with its learned share as a plain number, sharing its networks; any other model unchanged."""
    steps = list(model.mechanism.steps)
    if len(steps) == 2 and isinstance(steps[0], SplitGaussian) and isinstance(steps[1], SplitMasked):
        split, mask = steps[0].split, steps[1].mask
        return adaptive(model.classifier, mask, sigma=split.sigma, share=split.share).train(model.training)
    return model


def build(settings: MethodSettings, inputs: Inputs, classifier: nn.Module) -> SmoothedClassifier:
    """The method around a base classifier, with a recipe's settings."""
    channels, _, _ = inputs.shape
    mask = UNet(width=settings.mask.width, in_channels=channels)
    return adaptive(classifier, mask, sigma=settings.sigma, share=settings.share)
