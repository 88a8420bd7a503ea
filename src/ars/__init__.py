"""Adaptive Randomized Smoothing: classifiers whose predictions come with a proof, and which adapt to each input.

The public names and packages are loaded when they are first used, so that the theory and the command line's help never
wait for torch.
"""

from typing import TYPE_CHECKING

from ars.lazy import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ars import data as data
    from ars import methods as methods
    from ars import models as models
    from ars import smoothing as smoothing
    from ars import theory as theory
    from ars import training as training
    from ars.certification.certificate import Certificate, Prediction
    from ars.certification.procedure import certify, predict
    from ars.experiments.trained import load
    from ars.methods import adaptive, cohen, static_mask, sukenik, unicr
    from ars.smoothing import (
        Gaussian,
        MaskedGaussian,
        Release,
        SmoothedClassifier,
        Step,
        compose,
        draw_like,
        last,
        minimum_variance,
        normal_like,
    )
    from ars.theory import Ball, UnsupportedThreat, certified_radius, split_noise

__all__ = [
    "Ball",
    "Certificate",
    "Gaussian",
    "MaskedGaussian",
    "Prediction",
    "Release",
    "SmoothedClassifier",
    "Step",
    "UnsupportedThreat",
    "adaptive",
    "certified_radius",
    "certify",
    "cohen",
    "compose",
    "draw_like",
    "last",
    "load",
    "minimum_variance",
    "normal_like",
    "predict",
    "split_noise",
    "static_mask",
    "sukenik",
    "unicr",
]

_HOMES = {
    "ars.certification.certificate": ("Certificate", "Prediction"),
    "ars.certification.procedure": ("certify", "predict"),
    "ars.experiments.trained": ("load",),
    "ars.methods": ("adaptive", "cohen", "static_mask", "sukenik", "unicr"),
    "ars.smoothing": (
        "Gaussian",
        "MaskedGaussian",
        "Release",
        "SmoothedClassifier",
        "Step",
        "compose",
        "draw_like",
        "last",
        "minimum_variance",
        "normal_like",
    ),
    "ars.theory": ("Ball", "UnsupportedThreat", "certified_radius", "split_noise"),
}
_PACKAGES = ("data", "methods", "models", "smoothing", "theory", "training")
__getattr__, __dir__ = lazily(__name__, _HOMES, submodules=_PACKAGES, others=["__version__"])
