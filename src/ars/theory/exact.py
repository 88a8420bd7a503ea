"""Exact mode: releases in integers, so that float rounding reveals nothing, and what their sampler is charged.

An image on the grid of 8-bit levels plus rounded noise, 255 X + round(255 sigma z), is a function of the ideal release
255 X + 255 sigma z, because the rounding of an integer plus a number is the integer plus the rounded number. Every
guarantee of the ideal mechanism therefore holds. What is left is the distance between the real and the ideal sampler
of round(scale z), which is computed here from a stated model of the sampler and charged to the radius.

The sampler: k uniform among the 2^52 integers from 0, then z = sqrt(2) erfinv((k + 1/2) 2^-51 - 1) in float64, then
round(scale z). The model, for which the pseudo-random integers are taken as ideal: erfinv's result is the exact one at
an argument that is LEVEL_ERROR away at most, times 1 + RELATIVE_ERROR at most, the two products included.
"""

import math

from ars.theory.numbers import up
from ars.theory.threat import Ball
from ars.theory.tradeoff import Approximate, Gaussian

LEVELS = 255
"""An image on the grid has pixels of a whole number of 255ths."""
ON_GRID = 1e-6
"""How far a pixel in [0, 1] may be from the grid and still be taken as on it: a few roundings of float32."""
LEVEL_BITS = 52
LEVEL_ERROR = 2.0**-52
RELATIVE_ERROR = 2.0**-49
FARTHEST = 8.3
"""No z of the sampler is larger: sqrt(2) erfinv(1 - 2^-52) is 8.13."""


def sampler_distance(scale: float) -> float:
    """At most this total variation lies between the sampler's round(scale z) and that of a true normal z, rounded up.

    Between two neighbouring integers lies one edge, a number z* at which the result changes. The share of the k below
    an edge differs from its probability by 2^-52 at most, since the k are equally spaced, and by the model's error in
    the argument, and by the model's error in z, which moves the edge by |z*| RELATIVE_ERROR and its probability by the
    density times that. Summed over the edges (m + 1/2)/scale, phi(z) |z| gives scale sqrt(2/pi), plus one for a sum in
    place of an integral. An edge moves the probabilities of its two neighbours, which half of the sum of all
    differences counts once. Beyond the farthest edge both samplers have less than 2^-52 on each side.
    """
    edges = 2 * FARTHEST * scale + 2
    by_level = edges * (2.0**-LEVEL_BITS + 2 * LEVEL_ERROR)
    by_value = 2 * RELATIVE_ERROR * (scale * math.sqrt(2 / math.pi) + 1)
    return up(by_level + by_value * (1 + 1e-6) + 5 * 2.0**-LEVEL_BITS)


def rounded(ball: Ball) -> Ball:
    """The ball of grid images that the images of a ball around a grid image are rounded to.

    Linf: an image within r rounds to one within floor(255 r + 1/2) levels. L2: rounding moves a coordinate by 1/510 at
    most, and at most doubles its distance. Both allow for ON_GRID. The result is never smaller than the ball itself.
    """
    if ball.norm == "linf":
        levels = math.floor(up(LEVELS * (ball.radius + ON_GRID)) + 0.5)
        return Ball("linf", ball.dim, max(ball.radius, up(levels / LEVELS)))
    root = math.sqrt(ball.dim)
    reach = ball.radius + up(ON_GRID * root)
    return Ball("l2", ball.dim, up(min(2 * reach, reach + root / (2 * LEVELS))))


def exact_guarantee(sigma: float, ball: Ball, *, farthest: float = 1.0) -> Approximate:
    """G_mu of the rounded ball, mu = its L2 radius over sigma, less what the sampler of each coordinate is charged.

    farthest is the largest noise of a coordinate in units of sigma.
    """
    distance = up(ball.dim * sampler_distance(up(LEVELS * farthest * sigma)))
    return Approximate(Gaussian(up(rounded(ball).l2_radius / sigma)), min(1.0, distance))
