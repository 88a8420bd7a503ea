"""Randomized smoothing as in Cohen et al. (2019): one Gaussian look."""

from torch import nn

from ars.methods.builder import Inputs, MethodSettings
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last


def cohen(classifier: nn.Module, *, sigma: float) -> SmoothedClassifier:
    """g(X + z), z ~ N(0, sigma^2 I): Cor. 2.2 for L2, Eq. (4) for Linf."""
    return SmoothedClassifier(compose(Gaussian(sigma)), last, classifier)


def build(settings: MethodSettings, inputs: Inputs, classifier: nn.Module) -> SmoothedClassifier:
    """The method around a base classifier, with a recipe's settings."""
    return cohen(classifier, sigma=settings.sigma)
