"""Exact mode: releases in whole units, so that float rounding reveals nothing, and what their sampler is charged.

Let [X] be an image in units of 1/units, rounded to whole numbers. [X] + round(units sigma z) is a function of the
ideal release [X] + units sigma z, because a whole number plus a rounded number is their rounded sum. Every guarantee
of the ideal mechanism therefore holds for it, between [X] and [X + e]. What is left is the distance between the real
sampler of round(scale z) and the ideal one. It is computed here from a stated model and charged to the radius.

The sampler: k uniform among the 2^53 whole numbers from 0, then z = sqrt(2) erfinv((2 k + 1) 2^-53 - 1) in float64,
then round(scale z). The model: the random whole numbers are ideal, and scale z, both products and erfinv included, is
the exact number times 1 + RELATIVE_ERROR at most.
"""

import math

from ars.theory.rounding import up
from ars.theory.threat import Ball
from ars.theory.tradeoff import Approximate, Gaussian

UNITS = 255 * 256
"""Of a step without a mask, per 1: a 256th of an 8-bit level."""
MASKED_UNITS = 255 * 32
"""Of a masked step: coarser, because the sampler is charged by the largest noise in units."""
MOST_NOISE = 8
"""A coordinate of a masked step with more than this many sigma of noise, s/w, is not released."""
SAFE = 1e-9
"""Noise scales in float64 are increased by this share, far more than their rounding errors."""
LEVEL_BITS = 53
RELATIVE_ERROR = 2.0**-49
"""About 8 units in the last place; the sampler is compared with EXACTLY before it is used on a device."""
EXACTLY = {
    0: -8.2923610758135955, 1: -8.1607078408585832, 2: -8.0987842043543016, 100: -7.6365296828688595,
    2**20: -6.3379576810666337, 2**30: -5.1665781196416775, 2**40: -3.6683292851212067, 2**47: -2.1538746940614548,
    2**50: -1.1503493803760079, 2**51: -0.67448975019608157, 2**52 - 2**40: -0.0003059849015801320,
    2**52 - 1: -1.3914582123358835e-16,
}  # fmt: skip
"""z of some k, from 60-digit arithmetic; 2^53 - 1 - k has -z. Tails come first, where inversions are worst."""
FARTHEST = 8.3
"""No z of the sampler is larger: sqrt(2) erfinv(1 - 2^-53) is 8.2924."""
TO_FLOAT32 = 2.0**-24
"""How far reading X and X + e, in [0, 1], as float32 may move them apart in a coordinate."""


def sampler_distance(scale: float) -> float:
    """At most this total variation lies between the sampler's round(scale z) and that of a true normal z, rounded up.

    Between two neighbouring whole numbers lies an edge, (m + 1/2)/scale, at which the result changes. The share of the
    k below an edge differs from its probability by 2^-54 at most, because the k are the middles of equal steps. The
    error of z moves an edge by |z| RELATIVE_ERROR at most, and the probability below it by the density times that;
    summed over the edges, |z| times the density gives at most scale sqrt(2/pi) + 1. The total variation is at most the
    sum of both errors over the edges. Beyond the farthest edge both samplers have less than 2^-53 on each side.
    """
    edges = 2 * FARTHEST * scale + 2
    by_step = edges * 2.0 ** -(LEVEL_BITS + 1)
    by_value = RELATIVE_ERROR * (scale * math.sqrt(2 / math.pi) + 1) * (1 + 1e-6)
    return up(by_step + by_value + 4 * 2.0**-LEVEL_BITS)


def rounded(ball: Ball, units: int) -> Ball:
    """A ball around [X] that holds [X + e], in pixel units, for every e of a ball and every image X, also in float64.

    Two roundings to units together move a coordinate by one unit at most, and two to float32 by TO_FLOAT32. An Linf
    distance then becomes a whole number of units, and an L2 distance grows by sqrt(d) times both. Equal images stay
    equal.
    """
    if ball.radius == 0:
        return ball
    if ball.norm == "linf":
        whole = math.floor(up(units * (ball.radius + TO_FLOAT32)) + 1 + 1e-9)
        return Ball("linf", ball.dim, max(ball.radius, up(whole / units)))
    return Ball("l2", ball.dim, up(ball.radius + up(math.sqrt(ball.dim) * (1 / units + TO_FLOAT32)) * (1 + 1e-9)))


def exact_guarantee(sigma: float, ball: Ball, *, units: int, farthest: float) -> Approximate:
    """G_mu of the rounded ball, mu = its L2 radius over sigma, less what the sampler of each coordinate is charged.

    farthest is the largest noise scale of a coordinate in units of sigma.
    """
    distance = up(ball.dim * sampler_distance(up(units * farthest * sigma)))
    return Approximate(Gaussian(up(rounded(ball, units).l2_radius / sigma)), min(1.0, distance))


def exact_gaussian(sigma: float, ball: Ball) -> Approximate:
    """The guarantee of a Gaussian step in exact mode."""
    return exact_guarantee(sigma, ball, units=UNITS, farthest=1 + 2 * SAFE)


def exact_masked(sigma: float, ball: Ball) -> Approximate:
    """The guarantee of a masked Gaussian step in exact mode, for an Linf ball."""
    return exact_guarantee(sigma, ball, units=MASKED_UNITS, farthest=MOST_NOISE * (1 + 2 * SAFE))
