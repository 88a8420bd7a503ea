"""The f-DP theory of the paper, computed in float64 and rounded to the safe side; never imports torch."""

from ars.theory.composition import compose, noise_of_share, repeat, split_noise, total_noise
from ars.theory.generalised_normal import GeneralisedNormal, large_dim_noise, noise_scale
from ars.theory.numeric import Numeric
from ars.theory.radius import (
    ars_radius_l2,
    ars_radius_linf,
    certified_radius,
    gaussian_margin,
    is_robust,
    rs_radius_l2,
    rs_radius_linf,
)
from ars.theory.sukenik import sukenik_radius
from ars.theory.threat import NORMS, Ball, Norm, UnsupportedThreat
from ars.theory.tradeoff import Gaussian, Laplace, Profiled, TradeOff
from ars.theory.unicr import unicr_radius_linf

__all__ = [
    "NORMS",
    "Ball",
    "Gaussian",
    "GeneralisedNormal",
    "Laplace",
    "Norm",
    "Numeric",
    "Profiled",
    "TradeOff",
    "UnsupportedThreat",
    "ars_radius_l2",
    "ars_radius_linf",
    "certified_radius",
    "compose",
    "gaussian_margin",
    "is_robust",
    "large_dim_noise",
    "noise_of_share",
    "noise_scale",
    "repeat",
    "rs_radius_l2",
    "rs_radius_linf",
    "split_noise",
    "sukenik_radius",
    "total_noise",
    "unicr_radius_linf",
]
