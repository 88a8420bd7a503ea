"""The f-DP theory of the paper, in float64, rounded to the safe side; never imports torch."""

from ars.theory.composition import compose, noise_of_share, split_noise, total_noise
from ars.theory.robustness import (
    ars_radius_l2,
    ars_radius_linf,
    certified_radius,
    gaussian_margin,
    is_robust,
    rs_radius_l2,
    rs_radius_linf,
)
from ars.theory.threat import NORMS, Ball, Norm, UnsupportedThreat
from ars.theory.tradeoff import Gaussian, TradeOff

__all__ = [
    "NORMS",
    "Ball",
    "Gaussian",
    "Norm",
    "TradeOff",
    "UnsupportedThreat",
    "ars_radius_l2",
    "ars_radius_linf",
    "certified_radius",
    "compose",
    "gaussian_margin",
    "is_robust",
    "noise_of_share",
    "rs_radius_l2",
    "rs_radius_linf",
    "split_noise",
    "total_noise",
]
