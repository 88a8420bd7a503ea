"""Exact mode's theory: what the integer sampler is charged, and what happens to a ball when images are rounded."""

import math

import numpy as np
import pytest
from scipy.special import erfinv, ndtr

from ars.theory import Ball, Gaussian, certified_radius, compose
from ars.theory.exact import FARTHEST, LEVEL_BITS, RELATIVE_ERROR, exact_guarantee, rounded, sampler_distance
from ars.theory.tradeoff import Approximate

UNITS = 255 * 256
GRID = [0.0, 1e-9, 1e-4, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0]


@pytest.mark.parametrize("distance", [0.0, 1e-7, 0.01, 0.5])
def test_no_test_on_releases_that_far_apart_does_better(distance):
    """Moving mass `distance` at both ends is the worst case: the error rates of a threshold test stay above f."""
    mu = 0.8
    f = Approximate(Gaussian(mu), distance)
    for alpha in GRID:
        # the real releases may err by `distance` in each error, to the tester's profit
        ideal_level = min(1.0, alpha + distance)
        reachable = max(0.0, Gaussian(mu)(ideal_level) - distance)
        assert f(alpha) <= reachable
        assert f(alpha) == pytest.approx(reachable, abs=1e-13)


def test_composition_adds_distances_to_the_composed_ideal():
    parts = [Approximate(Gaussian(3.0), 1e-7), Gaussian(0.1), Approximate(Gaussian(4.0), 2e-7)]
    whole = compose(*parts)
    assert isinstance(whole, Approximate)
    assert whole.ideal == compose(Gaussian(3.0), Gaussian(0.1), Gaussian(4.0))
    assert 3e-7 <= whole.distance <= 3e-7 * (1 + 1e-12)


def guaranteed(ball: Ball) -> Approximate:
    return exact_guarantee(0.5, ball, units=UNITS, farthest=1.0)


def coarse_distance(scale: float, bits: int) -> float:
    """The distance of a sampler like ours but with 2^bits levels, all of which are counted."""
    k = np.arange(2**bits, dtype=np.float64)
    z = math.sqrt(2) * erfinv((2 * k + 1) * 2.0**-bits - 1)
    values, counts = np.unique(np.rint(scale * z), return_counts=True)
    least, most = int(values.min()) - 40, int(values.max()) + 40
    at = np.arange(least, most + 1)
    real = np.zeros(len(at))
    real[values.astype(int) - least] = counts / 2.0**bits
    ideal = ndtr((at + 0.5) / scale) - ndtr((at - 0.5) / scale)
    return 0.5 * (abs(real - ideal).sum() + max(0.0, 1 - ideal.sum()))


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 64.0])
@pytest.mark.parametrize("bits", [14, 18])
def test_the_count_of_edges_bounds_the_distance_of_a_coarse_sampler(scale, bits):
    """The same sum with 2^bits levels in place of 2^53, where the distance can be counted out."""
    edges = 2 * FARTHEST * scale + 2
    distance = coarse_distance(scale, bits)
    assert distance <= edges * 2.0 ** -(bits + 1) + 4 * 2.0**-bits
    if scale >= 1:  # the bound is not idle
        assert distance >= 0.01 * edges * 2.0**-bits


@pytest.mark.parametrize("scale", [1.0, 30.0, 180.0])
def test_an_error_in_z_moves_no_more_probability_than_charged(scale):
    """The worst case of the model, every edge moved outwards or inwards by its relative error, enlarged to be seen."""
    error = 1e-7
    edges = (np.arange(-int(9 * scale) - 1, int(9 * scale) + 1) + 0.5) / scale
    moved = sum(abs(ndtr(edges * (1 + error)) - ndtr(edges)))
    assert moved <= error * (scale * math.sqrt(2 / math.pi) + 1) * (1 + 1e-6)
    assert moved >= 0.9 * error * scale * math.sqrt(2 / math.pi)


def test_the_distance_is_computed_from_the_scale_and_small_at_the_papers_size():
    assert sampler_distance(255.0) > sampler_distance(25.0) > 0
    assert sampler_distance(100.0) >= RELATIVE_ERROR * 100 * math.sqrt(2 / math.pi) + FARTHEST * 100 * 2**-LEVEL_BITS
    distance = exact_guarantee(0.5, Ball("linf", 3072, 0.01), units=UNITS, farthest=1.0).distance
    assert distance >= 3072 * sampler_distance(UNITS * 0.5)
    assert distance < 1e-6


@pytest.mark.parametrize(("radius", "units"), [(0.0, 0), (1e-9, 1), (0.5 / 256, 1), (1 / 256, 2), (6.4 / 256, 7)])
def test_linf_balls_reach_whole_units(radius, units):
    assert rounded(Ball("linf", 12, radius), 256).radius == pytest.approx(units / 256, rel=1e-12)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_rounded_images_stay_in_the_rounded_ball(norm):
    rng = np.random.default_rng(0)
    order = 2 if norm == "l2" else np.inf
    closest = 0.0
    for radius in [0.001, 0.004, 0.02, 0.3]:
        reach = rounded(Ball(norm, 48, radius), 255).radius
        for _ in range(300):
            image = (rng.integers(0, 256, 48) + rng.choice([0.0, 0.49, 0.5], 48)) / 255  # near the edges of rounding
            e = rng.choice([-1.0, 1.0], 48) * (rng.random(48) < rng.random())
            e *= radius / max(np.linalg.norm(e, order), 1e-12)
            read = [np.float64(np.float32(part)) for part in (image, image + e)]
            moved = (np.rint(255 * read[1]) - np.rint(255 * read[0])) / 255
            assert np.linalg.norm(moved, order) <= reach
            closest = max(closest, np.linalg.norm(moved, order) / reach)
    assert closest > 0.9, "the ball is hardly larger than it must be"


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_radii_are_below_the_ideal_ones_by_two_units_at_most(norm):
    for p in (0.6, 0.9, 0.99, 0.999):
        radii = [
            certified_radius(guarantee, p, 1 - p, norm=norm, dim=3072)
            for guarantee in (
                lambda ball: Gaussian(ball.l2_radius / 0.5),
                guaranteed,
            )
        ]
        assert radii[1] < radii[0]
        unit = 1 / UNITS if norm == "linf" else math.sqrt(3072) / UNITS
        assert radii[1] > radii[0] * (1 - 1e-4) - 2 * unit


def test_hopeless_probabilities_certify_nothing():
    assert certified_radius(guaranteed, 0.5 + 1e-10, 0.5, norm="linf", dim=3072) == 0.0


@pytest.mark.parametrize("distance", [-1e-9, 1.5, math.nan])
def test_a_distance_is_a_probability(distance):
    with pytest.raises(ValueError, match="distance"):
        Approximate(Gaussian(1.0), distance)
