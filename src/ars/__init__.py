"""Adaptive Randomized Smoothing: classifiers whose predictions come with a proof, and which adapt to each input.

The public names are loaded when they are first used, so that the theory and the command line's help never wait for
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ars.certification.certificate import Certificate, Prediction
    from ars.certification.procedure import certify, predict
    from ars.methods import adaptive, cohen, static_mask, sukenik, unicr
    from ars.smoothing import (
        Gaussian,
        MaskedGaussian,
        Release,
        SmoothedClassifier,
        Step,
        compose,
        last,
        minimum_variance,
    )
    from ars.theory import Ball, UnsupportedThreat, certified_radius, split_noise

_HOMES = {
    "ars.certification.certificate": ("Certificate", "Prediction"),
    "ars.certification.procedure": ("certify", "predict"),
    "ars.methods": ("adaptive", "cohen", "static_mask", "sukenik", "unicr"),
    "ars.smoothing": (
        "Gaussian",
        "MaskedGaussian",
        "Release",
        "SmoothedClassifier",
        "Step",
        "compose",
        "last",
        "minimum_variance",
    ),
    "ars.theory": ("Ball", "UnsupportedThreat", "certified_radius", "split_noise"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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
    "last",
    "minimum_variance",
    "predict",
    "split_noise",
    "static_mask",
    "sukenik",
    "unicr",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ars' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
