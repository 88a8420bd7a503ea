import math
from dataclasses import dataclass

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from ars.certification.levels import Level, UnreachableRadius, level_of, levels_of
from ars.theory import Gaussian, is_robust

mpmath.mp.dps = 50


@dataclass(frozen=True)
class Opaque:
    """G_mu without its name: only bisection is left."""

    mu: float

    def __call__(self, alpha):
        return Gaussian(self.mu)(alpha)


@given(st.floats(min_value=0, max_value=7.5))
def test_the_level_of_a_gaussian_is_phi_rounded_up(mu):
    level = level_of(Gaussian(mu))
    exact = mpmath.ncdf(mpf(mu))
    rest = mpmath.ncdf(-mpf(mu))
    assert exact < level.p < exact + mpf("1e-14")
    assert mpmath.log(exact) < level.log_p < mpmath.log(exact) * (1 - mpf("1e-13"))
    # the digits of 1 - p are there, however close p is to 1
    assert mpmath.log(rest) < level.log_q < mpmath.log(rest) * (1 - mpf("1e-13"))


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 2.5, 4.0])
def test_bisection_agrees_with_the_closed_form(mu):
    level = level_of(Opaque(mu))
    exact = mpmath.ncdf(mpf(mu))
    assert exact < level.p < exact + mpf("1e-11")
    assert is_robust(Opaque(mu), level.p, 1 - level.p)
    assert level.log_p >= math.log(level.p)
    assert level.log_q >= math.log1p(-level.p)


@pytest.mark.parametrize("f", [Gaussian(9.0), Gaussian(1e6), Opaque(9.0)])
def test_a_level_that_rounds_to_one_is_refused(f):
    with pytest.raises(UnreachableRadius):
        level_of(f)


def test_a_radius_out_of_reach_is_named():
    def guarantee(ball):
        return Gaussian(ball.radius / 0.25)

    with pytest.raises(UnreachableRadius, match=r"radius 2\.5 cannot be certified: .*Phi\(10\).*leave it out"):
        levels_of(guarantee, (0.25, 2.5), norm="l2", dim=4)
    low, high = levels_of(guarantee, (0.0, 0.25), norm="l2", dim=4)
    assert (low.p, high.p) == pytest.approx((0.5, 0.8413447461))


def test_a_guarantee_that_grows_with_the_ball_is_refused():
    with pytest.raises(ValueError, match="grows with the ball"):
        levels_of(lambda ball: Gaussian(1 / ball.radius), (1.0, 2.0), norm="l2", dim=4)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, math.nan])
def test_a_level_outside_zero_one_is_refused(p):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        Level(p, -1.0, -1.0)
