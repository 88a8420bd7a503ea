import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from ars.certification.levels import level_of, levels_of
from ars.theory import Gaussian, certified_radius, rs_radius_l2

mpmath.mp.dps = 50
SIGMA = 0.5


def gaussian(p):
    return rs_radius_l2(SIGMA, p, 1 - p)


@given(st.floats(min_value=1e-6, max_value=3.9))
def test_the_level_of_a_gaussian_is_phi_rounded_up(radius):
    level = level_of(gaussian, radius)
    assert gaussian(level) >= radius
    exact = mpmath.ncdf(mpf(radius) / mpf(SIGMA))
    assert exact < level < mpmath.ncdf(mpf(radius) / mpf(SIGMA) * (1 + mpf("2e-6"))) + mpf("2e-16")


@pytest.mark.parametrize("radius", [0.01, 0.5, 1.0, 3.0])
def test_it_takes_few_radii_where_the_radius_is_linear_in_the_quantile(radius):
    calls = []

    def radius_of(p):
        calls.append(p)
        return certified_radius(lambda ball: Gaussian(ball.radius / SIGMA), p, 1 - p, norm="l2", dim=12)

    level = level_of(radius_of, radius)
    assert level == pytest.approx(level_of(gaussian, radius), rel=1e-12)
    assert len(calls) < 10


def test_a_radius_with_steps_is_met_from_above():
    """A certificate from a table: the least p is where the step is."""
    level = level_of(lambda p: 0.1 * int(20 * (p - 0.5)), 0.25)
    assert 0.65 <= level < 0.65 + 1e-5


def test_radius_zero_asks_for_a_majority():
    assert level_of(gaussian, 0.0) == 0.5


def test_a_radius_that_asks_for_certainty_has_no_level():
    assert level_of(gaussian, 5.0) is None
    assert levels_of(gaussian, (0.5, 1.0, 5.0, 6.0)) == levels_of(gaussian, (0.5, 1.0))


@pytest.mark.parametrize("radius_of", [gaussian, lambda p: (2 * gaussian(p)) ** 3])
def test_levels_never_fall(radius_of):
    """Radii closer together than levels are searched for: where the radius is curved, each search ends elsewhere."""
    radii = [1 + 1e-8 * step for step in range(30)]
    levels = levels_of(radius_of, radii)
    assert list(levels) == sorted(levels)
    assert all(radius_of(level) >= radius for level, radius in zip(levels, radii, strict=True))
