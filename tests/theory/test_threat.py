import math

import pytest

from ars.theory import Ball, UnsupportedThreat


def test_an_linf_ball_sits_inside_the_l2_ball_of_sqrt_dim_times_its_radius():
    corner = [0.3] * 7  # the farthest point of the cube
    assert Ball("linf", 7, 0.3).l2_radius == pytest.approx(math.hypot(*corner), rel=1e-15)
    assert Ball("l2", 7, 0.3).l2_radius == 0.3


@pytest.mark.parametrize("norm", ["l1", "L2", "Linf", "", None, 2])
def test_a_norm_without_a_proof_is_refused_by_name(norm):
    with pytest.raises(UnsupportedThreat, match="norm must be one of l2, linf"):
        Ball(norm, 3, 0.1)


@pytest.mark.parametrize("radius", [-1e-300, -1.0, math.inf, math.nan])
def test_a_radius_that_is_negative_or_not_finite_is_refused(radius):
    with pytest.raises(ValueError, match="radius must be finite and at least 0"):
        Ball("l2", 3, radius)
