"""Mechanisms: what adds the noise also states its guarantee."""

from ars.smoothing.averaging import last, minimum_variance
from ars.smoothing.classifier import SmoothedClassifier
from ars.smoothing.compose import Composition, compose
from ars.smoothing.gaussian import Gaussian
from ars.smoothing.generalised_normal import GeneralisedNormal
from ars.smoothing.masked import MaskedGaussian
from ars.smoothing.mechanism import Release, Step

__all__ = [
    "Composition",
    "Gaussian",
    "GeneralisedNormal",
    "MaskedGaussian",
    "Release",
    "SmoothedClassifier",
    "Step",
    "compose",
    "last",
    "minimum_variance",
]
