"""UniCR (Hong et al., 2022) as the paper runs it: the shape of the noise is chosen before testing, then fixed."""

from torch import nn

from ars.methods.builder import Inputs, MethodSettings
from ars.smoothing import SmoothedClassifier, compose, last
from ars.smoothing.generalised_normal import GeneralisedNormal

SIGMAS = (0.12, 0.25, 0.5, 0.75, 1.0, 1.5)
# The paper's beta for each k and sigma, or its most frequent value for cells that the paper does not have.
BETAS = {
    32: (2.25, 2.25, 2.25, 2.25, 2.25, 2.25),
    48: (2.0, 2.0, 2.25, 2.0, 2.25, 2.0),
    64: (2.25, 2.0, 2.25, 2.0, 2.0, 2.0),
    96: (2.0, 2.0, 2.25, 2.25, 2.25, 2.25),
}
USUAL_BETA = 2.25


def unicr(classifier: nn.Module, *, sigma: float, beta: float) -> SmoothedClassifier:
    """g(X + z), z i.i.d. generalised normal of shape beta, 1 to 5, and deviation sigma; Linf, and L2 for beta = 2."""
    return SmoothedClassifier(compose(GeneralisedNormal(sigma, beta)), last, classifier)


def paper_beta(k: int, sigma: float) -> float:
    """The shape that the paper uses on k x k images at this noise level.

    >>> paper_beta(64, 0.5), paper_beta(96, 0.25), paper_beta(24, 0.7)
    (2.25, 2.0, 2.25)
    """
    return BETAS[k][SIGMAS.index(sigma)] if k in BETAS and sigma in SIGMAS else USUAL_BETA


def build(settings: MethodSettings, inputs: Inputs, classifier: nn.Module) -> SmoothedClassifier:
    """The method around a base classifier, with a recipe's settings."""
    _, height, _ = inputs.shape
    return unicr(classifier, sigma=settings.sigma, beta=settings.beta or paper_beta(height, settings.sigma))
