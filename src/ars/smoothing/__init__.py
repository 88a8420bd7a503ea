"""Mechanisms: the object that adds the noise also states its guarantee."""

from ars.smoothing.classifier import SmoothedClassifier, denoised
from ars.smoothing.combine import last, minimum_variance, noise_map
from ars.smoothing.gaussian import Gaussian
from ars.smoothing.generalised_normal import GeneralisedNormal
from ars.smoothing.input_dependent import InputDependentClassifier, LocalGaussian, NearestNoise
from ars.smoothing.masked import MaskedGaussian
from ars.smoothing.mechanism import Composition, Release, Step, compose, draw_like, normal_like
from ars.smoothing.split import LearnedSplit

__all__ = [
    "Composition",
    "Gaussian",
    "GeneralisedNormal",
    "InputDependentClassifier",
    "LearnedSplit",
    "LocalGaussian",
    "MaskedGaussian",
    "NearestNoise",
    "Release",
    "SmoothedClassifier",
    "Step",
    "compose",
    "denoised",
    "draw_like",
    "last",
    "minimum_variance",
    "noise_map",
    "normal_like",
]
