"""UniCR (Hong et al., 2022) as the paper runs it: the shape of the noise is chosen before testing, then fixed."""

from torch import nn

from ars.methods.builder import Inputs, MethodSettings
from ars.methods.paper_values import paper_beta
from ars.smoothing import SmoothedClassifier, compose, last
from ars.smoothing.generalised_normal import GeneralisedNormal


def unicr(classifier: nn.Module, *, sigma: float, beta: float) -> SmoothedClassifier:
    """g(X + z), z i.i.d. generalised normal of shape beta, 1 to 5, and deviation sigma; Linf, and L2 for beta = 2."""
    return SmoothedClassifier(compose(GeneralisedNormal(sigma, beta)), last, classifier)


def build(settings: MethodSettings, inputs: Inputs, classifier: nn.Module) -> SmoothedClassifier:
    """The method around a base classifier, with a recipe's settings."""
    _, height, _ = inputs.shape
    return unicr(classifier, sigma=settings.sigma, beta=settings.beta or paper_beta(height, settings.sigma))
