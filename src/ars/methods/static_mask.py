"""The static mask: one learned mask for all inputs, no first look; the paper's ablation of adaptivity."""

from torch import nn

from ars.smoothing import MaskedGaussian, SmoothedClassifier, compose, last


def static_mask(classifier: nn.Module, mask: nn.Module, *, sigma: float) -> SmoothedClassifier:
    """g(w * X + z), z ~ N(0, (||w||^2 / d) sigma^2 I), with a w that does not depend on X."""
    return SmoothedClassifier(compose(MaskedGaussian(sigma, mask)), last, classifier)
