"""Are the probabilities and radii of records those of their votes? Computed again, so that a report states no other.

A method of this package is known by its name, and with it how a radius follows from the votes and the noise. Of any
other method only the probabilities are known, and that a larger probability gives no smaller radius. Not known are the
level sigma(x) of input-dependent noise, beyond its range, and at which look the votes of curve mode certified a radius.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ars.certification.bounds import Bound, class_probabilities, most_misses
from ars.certification.certificate import Certificate
from ars.certification.martingale import reaches
from ars.certification.settings import BLOCK
from ars.methods.paper_values import RATE, paper_beta
from ars.methods.registry import methods
from ars.runs.records import Record, ReportError
from ars.theory import Ball, Norm, TradeOff, ars_radius_l2, ars_radius_linf, compose, is_robust, unicr_radius_linf
from ars.theory.exact import exact_gaussian, exact_masked

NEAR = 1e-6
"""Relative: far above the differences between versions of SciPy, and far below what a report shows."""
LOOKS = {"cohen": (False,), "static_mask": (True,), "adaptive": (False, True)}
"""Whether each look of a Gaussian method is masked."""


def check_radii(path: Path, recipe: Mapping[str, Any], shape: Sequence[int], records: Sequence[Record]) -> None:
    """Refuse records whose probabilities or radii do not follow from their votes; path names the run in messages."""
    method = str(recipe["method"])
    for record in records:
        made = record.certificate
        try:
            wrong = _wrong(made, recipe, method, shape)
        except (ValueError, ArithmeticError) as error:
            wrong = f"has invalid values ({error})"
        if wrong:
            raise ReportError(f"image {made.index} of {path} {wrong}; restore the records that the run has written")
    if method not in methods():
        _check_order(path, records)


def _wrong(made: Certificate, recipe: Mapping[str, Any], method: str, shape: Sequence[int]) -> str:
    """What does not follow from the votes of a record, in words; empty if all does."""
    if made.schedule.mode == "curve":
        return _wrong_grid(made, recipe, method, shape)
    bounds: dict[Bound, tuple[float, float]] = {made.bound: (0.0, 1.0)}  # of an image that was given up
    if not made.stopped_by_data:
        bounds = {bound: _probabilities(made, bound) for bound in {made.bound, *made.radii}}
    stated = made.p_lower, made.p_upper
    if not all(math.isclose(*pair, rel_tol=NEAR) for pair in zip(stated, bounds[made.bound], strict=True)):
        return f"states probabilities {made.p_lower} and {made.p_upper}, but its votes show {bounds[made.bound]}"
    for bound, radius in made.radii.items():
        lower, upper = bounds.get(bound, (0.0, 1.0))
        least, most = _between(made, recipe, method, shape, radius, lower, upper) if lower > upper else (0.0, 0.0)
        if not least <= radius <= most:
            return f"states the radius {radius} under bound {bound}, which does not follow from its votes and noise"
    return ""


def _probabilities(made: Certificate, bound: Bound) -> tuple[float, float]:
    return class_probabilities(made.counts, made.candidate, made.alpha, bound)


def _wrong_grid(made: Certificate, recipe: Mapping[str, Any], method: str, shape: Sequence[int]) -> str:
    """The same for curve mode, in which a radius of the grid is certified at the level that it needs."""
    level = made.p_lower
    if made.label is None:
        return "" if level == 0 and made.p_upper == 1 else f"abstains, but states probabilities {level}, {made.p_upper}"
    if not 0.5 <= level < 1 or made.p_upper != 1 - level:
        return f"states probabilities {level} and {made.p_upper}, of which no label follows"
    if made.radius > 0:
        _, most = _between(made, recipe, method, shape, made.radius, level, 1 - level)
        if not made.radius <= most:
            return f"states the radius {made.radius}, for which probability {level} is not enough"
    return "" if _could_certify(made, level) else f"has votes that cannot show probability {level}"


def _could_certify(made: Certificate, level: float) -> bool:
    """Whether the test at the last look passes, or the bet could have won at some look with these votes.

    The records do not hold the order of the votes. Wealth is largest if the misses came after that look, which is
    after a block at least. If the last radius ended the draws, the look was at all votes.
    """
    wins, draws, limit = made.counts[made.candidate], made.n_estimate, made.schedule.n_max
    if draws == limit and draws - wins <= most_misses(limit, level, made.alpha / 2):
        return True
    seen = made.select_counts[made.candidate]
    prior = np.array([[seen + 0.5], [sum(made.select_counts) - seen + 0.5]])
    n = draws if made.ended == "certified" else max(wins, min(BLOCK, draws))
    won = reaches(2 / made.alpha, np.array([wins]), np.array([n]), prior=(prior[0], prior[1]), p0=np.array([level]))
    return bool(won[0])


def _between(
    made: Certificate,
    recipe: Mapping[str, Any],
    method: str,
    shape: Sequence[int],
    radius: float,
    lower: float,
    upper: float,
) -> tuple[float, float]:
    """The least and the most that a stated radius may be, for these bounds on the probabilities."""
    if method not in LOOKS and method not in ("unicr", "sukenik"):
        return 0.0, math.inf
    masks = LOOKS.get(method, (False,))
    if made.norm != "linf" and any(masks):
        raise ValueError(f"{method} has no certificates for {made.norm}")
    if made.exact:
        if method not in LOOKS:
            raise ValueError(f"{method} has no exact mode")
        return _exact_between(made.sigmas, masks, made.norm, made.dim, radius, lower, upper)
    if method == "sukenik":
        # upper plays no part in it; the same noise everywhere has the largest radius
        away = abs(math.log(made.sigmas[0] / float(recipe["sigma"])))
        if away > RATE * math.sqrt(made.dim) * (1 + NEAR):
            raise ValueError(f"no image has the noise {made.sigmas[0]} at sigma {recipe['sigma']}")
        return 0.0, _gaussian(made.sigmas, made.norm, made.dim, lower, 1 - lower) * (1 + NEAR)
    beta = 2.0 if method != "unicr" else float(recipe.get("beta") or paper_beta(shape[1], float(recipe["sigma"])))
    if beta == 2:
        found = _gaussian(made.sigmas, made.norm, made.dim, lower, upper)
    elif made.norm != "linf":
        raise ValueError(f"unicr with beta {beta} has no certificates for {made.norm}")
    else:
        found = unicr_radius_linf(made.sigmas[0], beta, made.dim, lower, upper)
    return found * (1 - NEAR), found * (1 + NEAR)


@lru_cache(maxsize=2**16)
def _gaussian(sigmas: tuple[float, ...], norm: Norm, dim: int, lower: float, upper: float) -> float:
    if norm == "l2":
        return ars_radius_l2(sigmas, lower, upper)
    return ars_radius_linf(sigmas, dim, lower, upper)


@lru_cache(maxsize=2**16)
def _exact_between(
    sigmas: tuple[float, ...],
    masks: tuple[bool, ...],
    norm: Norm,
    dim: int,
    radius: float,
    lower: float,
    upper: float,
) -> tuple[float, float]:
    """(radius, radius) if it is the largest at which Prop. 2.1 holds, else an interval without it."""

    def holds(tried: float) -> bool:
        ball = Ball(norm, dim, tried)
        parts: list[TradeOff] = [
            (exact_masked if masked else exact_gaussian)(sigma, ball)
            for sigma, masked in zip(sigmas, masks, strict=True)
        ]
        return is_robust(compose(*parts), lower, upper)

    if radius > 0 and not holds(radius * (1 - NEAR)):
        return 0.0, 0.0
    return (math.inf, math.inf) if holds(radius * (1 + NEAR) or NEAR) else (radius, radius)


def _check_order(path: Path, records: Sequence[Record]) -> None:
    """Refuse radii of your own method that shrink while the probability grows; its noise is the same for all."""
    made = [record.certificate for record in records if record.certificate.schedule.mode != "curve"]
    ordered = sorted((one.p_lower, one.radii["cohen"], one.index) for one in made if one.bound == "cohen")
    most = 0.0
    for _, radius, index in ordered:
        if radius < most * (1 - NEAR):
            raise ReportError(
                f"image {index} of {path} has a smaller radius than an image with a smaller probability; restore the "
                "records that the run has written"
            )
        most = max(most, radius)
