"""The static mask: one learned mask for all inputs, no first look; the paper's ablation of adaptivity."""

from torch import nn

from ars.methods.builder import Inputs, MethodSettings
from ars.models import StaticMask
from ars.smoothing import MaskedGaussian, SmoothedClassifier, compose, last


def static_mask(classifier: nn.Module, mask: nn.Module, *, sigma: float) -> SmoothedClassifier:
    """g(w * X + z), z ~ N(0, (||w||^2 / d) sigma^2 I), with a w that does not depend on X."""
    return SmoothedClassifier(compose(MaskedGaussian(sigma, mask)), last, classifier)


def build(settings: MethodSettings, inputs: Inputs, classifier: nn.Module) -> SmoothedClassifier:
    """The method around a base classifier, with a recipe's settings."""
    _, height, width = inputs.shape
    return static_mask(classifier, StaticMask(height, width), sigma=settings.sigma)
