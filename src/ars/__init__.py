"""Adaptive Randomized Smoothing: image classifiers that adapt to each input and prove their predictions robust.

Public names and packages are loaded on first use, so the theory and the command line's help never wait for torch.
"""

from typing import TYPE_CHECKING

from ars.lazy import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ars import adapters as adapters
    from ars import data as data
    from ars import methods as methods
    from ars import models as models
    from ars import smoothing as smoothing
    from ars import theory as theory
    from ars import training as training
    from ars.certification.certificate import Certificate, Prediction
    from ars.certification.certifier import Certifier, certify, predict
    from ars.certification.settings import CertifySettings
    from ars.methods.adaptive import adaptive
    from ars.methods.cohen import cohen
    from ars.methods.static_mask import static_mask
    from ars.methods.sukenik import sukenik
    from ars.methods.unicr import unicr
    from ars.smoothing import (
        Gaussian,
        MaskedGaussian,
        Release,
        SmoothedClassifier,
        Step,
        compose,
        denoised,
        draw_like,
        last,
        minimum_variance,
        noise_map,
        normal_like,
    )
    from ars.theory import Ball, UnsupportedThreat, certified_radius, split_noise
    from ars.workflows.evaluate import Evaluation, evaluate
    from ars.workflows.hub import push, save
    from ars.workflows.load import load

__all__ = [
    "Ball",
    "Certificate",
    "Certifier",
    "CertifySettings",
    "Evaluation",
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
    "denoised",
    "draw_like",
    "evaluate",
    "last",
    "load",
    "minimum_variance",
    "noise_map",
    "normal_like",
    "predict",
    "push",
    "save",
    "split_noise",
    "static_mask",
    "sukenik",
    "unicr",
]

_HOMES = {
    "ars.certification.certificate": ("Certificate", "Prediction"),
    "ars.certification.certifier": ("Certifier", "certify", "predict"),
    "ars.certification.settings": ("CertifySettings",),
    "ars.workflows.evaluate": ("Evaluation", "evaluate"),
    "ars.workflows.hub": ("push", "save"),
    "ars.workflows.load": ("load",),
    "ars.methods.adaptive": ("adaptive",),
    "ars.methods.cohen": ("cohen",),
    "ars.methods.static_mask": ("static_mask",),
    "ars.methods.sukenik": ("sukenik",),
    "ars.methods.unicr": ("unicr",),
    "ars.smoothing": (
        "Gaussian",
        "MaskedGaussian",
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
    ),
    "ars.theory": ("Ball", "UnsupportedThreat", "certified_radius", "split_noise"),
}
_PACKAGES = ("adapters", "data", "methods", "models", "smoothing", "theory", "training")
__getattr__, __dir__ = lazily(__name__, _HOMES, submodules=_PACKAGES, others=["__version__"])
