import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mpmath import mpf

from ars.theory import (
    Ball,
    Gaussian,
    UnsupportedThreat,
    ars_radius_l2,
    ars_radius_linf,
    certified_radius,
    compose,
    gaussian_margin,
    is_robust,
    repeat,
    rs_radius_l2,
    rs_radius_linf,
)
from ars.theory.rounding import not_above, not_below

ALMOST_ONE = 1 - 2.0**-53
LEAST = 5e-324

plus = st.floats(min_value=0, max_value=1, exclude_max=True)
minus = st.floats(min_value=0, max_value=1, exclude_min=True)
sigmas = st.floats(min_value=1e-4, max_value=1e4)
dims = st.integers(min_value=1, max_value=10**7)

# pairs that are ordinary, extreme, and so near each other that the quantiles cancel
PAIRS = [
    (0.9, 0.1),
    (0.5 + 2.0**-53, 0.5),
    (0.500001, 0.499999),
    (0.86466, 0.1353352832366127),
    (0.99999, 0.98),
    (0.3, 0.29999999999),
    (0.01, 0.001),
    (1e-300, 1e-305),
    (ALMOST_ONE, 1 - 2.0**-52),
    (ALMOST_ONE, 2.0**-53),
    (ALMOST_ONE, 1e-300),
    (0.6, LEAST),
]


def exact_margin(phi_inv, p_plus, p_minus):
    return (phi_inv(p_plus) - phi_inv(p_minus)) / 2


def allowance(phi_inv, p_plus, p_minus):
    """What rounding down may cost: 1e-12 relative, plus the digits that the difference of the quantiles cancels."""
    return mpf("1e-12") * exact_margin(phi_inv, p_plus, p_minus) + mpf("1e-14") * (
        abs(phi_inv(p_plus)) + abs(phi_inv(p_minus))
    )


@pytest.mark.parametrize(("p_plus", "p_minus"), PAIRS)
def test_the_margin_is_rounded_down_and_close(p_plus, p_minus, phi_inv):
    exact = exact_margin(phi_inv, p_plus, p_minus)
    margin = gaussian_margin(p_plus, p_minus)
    assert margin < exact
    assert exact - margin <= allowance(phi_inv, p_plus, p_minus)


@pytest.mark.parametrize(("p_plus", "p_minus"), PAIRS)
@pytest.mark.parametrize("levels", [(0.5,), (0.7, 0.7), (0.12, 1.5, 0.3), (1e-3, 1e3)])
@pytest.mark.parametrize("dim", [1, 3072, 150_528])
def test_radii_are_rounded_down_and_close(p_plus, p_minus, levels, dim, phi_inv):
    noise = 1 / mpmath.sqrt(mpmath.fsum(1 / mpf(level) ** 2 for level in levels))
    exact = noise * exact_margin(phi_inv, p_plus, p_minus)
    lost = noise * allowance(phi_inv, p_plus, p_minus)
    l2 = ars_radius_l2(levels, p_plus, p_minus)
    linf = ars_radius_linf(levels, dim, p_plus, p_minus)
    assert l2 < exact
    assert exact - l2 <= lost
    assert linf < exact / mpmath.sqrt(dim)
    assert exact / mpmath.sqrt(dim) - linf <= lost / mpmath.sqrt(dim)


@pytest.mark.parametrize(("p_plus", "p_minus"), [pair for pair in PAIRS if pair[0] - pair[1] > 1e-6])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_bisection_of_prop_2_1_agrees_with_the_closed_form(p_plus, p_minus, norm):
    levels, dim = (0.7, 0.9), 3072

    def guarantee(ball):
        return compose(*(Gaussian(ball.l2_radius / sigma) for sigma in levels))

    bisected = certified_radius(guarantee, p_plus, p_minus, norm=norm, dim=dim)
    closed = ars_radius_l2(levels, p_plus, p_minus) / (math.sqrt(dim) if norm == "linf" else 1)
    assert bisected == pytest.approx(closed, rel=1e-12)


class AsFunction:
    """G_mu unknown to the library as a Gaussian, so that Prop. 2.1 is evaluated as it stands."""

    def __init__(self, mu):
        self.mu = mu

    def __call__(self, alpha):
        return float(mpmath.ncdf(-mpmath.sqrt(2) * mpmath.erfinv(2 * mpf(alpha) - 1) - mpf(self.mu)))


@pytest.mark.parametrize(("p_plus", "p_minus"), [(0.9, 0.1), (0.6, 0.25), (0.999, 0.0005), (0.3, 0.2)])
def test_prop_2_1_as_it_stands_gives_the_gaussian_radius(p_plus, p_minus):
    bisected = certified_radius(lambda ball: AsFunction(ball.radius / 0.5), p_plus, p_minus, norm="l2", dim=3)
    closed = rs_radius_l2(0.5, p_plus, p_minus)
    assert bisected == pytest.approx(closed, rel=1e-9)


def pure_dp(eps):
    return lambda alpha: max(0.0, 1 - math.exp(eps) * alpha, math.exp(-eps) * (1 - alpha))


@pytest.mark.parametrize(
    ("p_plus", "p_minus"), [(0.9, 0.1), (0.6, 0.25), (0.3, 0.01), (0.99, 0.9), (0.999, 0.0005), (0.5001, 0.4999)]
)
def test_pure_dp_has_the_radius_of_its_closed_form(p_plus, p_minus):
    """f(1 - p+) > 1 - f(p-), two branches on each side, so that four conditions on eps each suffice."""
    b = 0.3
    radius = certified_radius(lambda ball: pure_dp(ball.radius / b), p_plus, p_minus, norm="l2", dim=1)
    exact = b * max(
        math.log(p_plus / p_minus) / 2,
        math.log((1 - p_minus) / (1 - p_plus)) / 2,
        -math.log(1 - p_plus + p_minus),
        math.log(1 + p_plus - p_minus),
    )
    assert radius == pytest.approx(exact, rel=1e-8)
    assert radius < exact


@given(plus, minus, sigmas, dims)
@example(p_plus=ALMOST_ONE, p_minus=LEAST, sigma=1e4, dim=1)
@example(p_plus=1e-300, p_minus=LEAST, sigma=1.0, dim=3)
@example(p_plus=0.0, p_minus=1.0, sigma=1.0, dim=3)
@example(p_plus=0.5, p_minus=math.nextafter(0.5, 0), sigma=1.0, dim=3)
def test_a_radius_is_finite_and_never_negative(p_plus, p_minus, sigma, dim):
    radius = rs_radius_linf(sigma, dim, p_plus, p_minus)
    assert 0 <= radius < math.inf
    assert radius <= rs_radius_l2(sigma, p_plus, p_minus)
    if p_plus <= p_minus:
        assert radius == 0


@given(plus, plus, minus)
def test_more_votes_for_the_class_never_shrink_the_margin(first, second, p_minus):
    low, high = sorted((first, second))
    assert gaussian_margin(low, p_minus) <= gaussian_margin(high, p_minus) + 1e-13


@given(
    st.floats(min_value=0, max_value=0.999999), st.floats(min_value=1e-6, max_value=1), sigmas, st.integers(1, 10**6)
)
def test_prop_2_1_holds_at_the_reported_radius_and_fails_just_beyond(p_plus, p_minus, sigma, dim):
    def guarantee(ball):
        return Gaussian(ball.l2_radius / sigma)

    radius = certified_radius(guarantee, p_plus, p_minus, norm="linf", dim=dim)
    if radius > 0:
        assert is_robust(guarantee(Ball("linf", dim, radius)), p_plus, p_minus)
    beyond = max(radius, 1e-300) * (1 + 1e-13)
    assert not is_robust(guarantee(Ball("linf", dim, beyond)), p_plus, p_minus)


@given(plus, minus)
def test_prop_2_1_is_strict_at_a_tie(p_plus, p_minus):
    assume(p_plus > p_minus)
    assert not is_robust(Gaussian(gaussian_margin(p_plus, p_minus)), p_plus, p_minus)


@pytest.mark.parametrize("sigma", [1e-308, 1e-312, 1e-318, LEAST])
def test_bisection_ends_where_numbers_end(sigma):
    radius = certified_radius(lambda ball: Gaussian(ball.radius / sigma), 0.9, 0.1, norm="l2", dim=1)
    assert 0 <= radius <= 1.2816 * sigma


def test_a_guarantee_that_does_not_depend_on_the_ball_is_refused():
    with pytest.raises(ValueError, match="does not depend on the ball"):
        certified_radius(lambda ball: Gaussian(0.0), 0.9, 0.1, norm="l2", dim=1)


@pytest.mark.parametrize("bad", [1.0, 1.5, -0.1, math.nan, math.inf])
def test_certainty_about_the_predicted_class_is_refused(bad):
    for call in (
        lambda: gaussian_margin(bad, 0.1),
        lambda: is_robust(Gaussian(0.1), bad, 0.1),
        lambda: is_robust(pure_dp(0.1), bad, 0.1),
        lambda: rs_radius_l2(0.5, bad, 0.1),
        lambda: certified_radius(lambda ball: Gaussian(ball.radius), bad, 0.1, norm="l2", dim=1),
    ):
        with pytest.raises(ValueError, match="p_plus must lie in"):
            call()


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.5, math.nan, -math.inf])
def test_ruling_out_a_class_is_refused(bad):
    for call in (
        lambda: gaussian_margin(0.9, bad),
        lambda: is_robust(Gaussian(0.1), 0.9, bad),
        lambda: is_robust(pure_dp(0.1), 0.9, bad),
        lambda: rs_radius_linf(0.5, 3, 0.9, bad),
        lambda: certified_radius(lambda ball: Gaussian(ball.radius), 0.9, bad, norm="l2", dim=1),
    ):
        with pytest.raises(ValueError, match="p_minus must lie in"):
            call()


@pytest.mark.parametrize("bad", [0, -3, math.nan, math.inf])
def test_a_bad_dimension_is_refused(bad):
    with pytest.raises(ValueError, match="dim must be"):
        rs_radius_linf(0.5, bad, 0.9, 0.1)


@pytest.mark.parametrize(("p_plus", "p_minus"), [(0.9, 0.1), (0.4, 0.4)])
def test_a_bad_norm_is_refused_whether_or_not_there_is_a_radius(p_plus, p_minus):
    with pytest.raises(UnsupportedThreat, match="norm must be one of"):
        certified_radius(lambda ball: Gaussian(ball.radius), p_plus, p_minus, norm="l1", dim=1)


@dataclass(frozen=True)
class Charged(Gaussian):
    """G_mu of a sampler that is tv away from normal noise, in total variation."""

    tv: float = 0.2

    def __call__(self, alpha, /):
        return max(0.0, super().__call__(min(1.0, alpha + self.tv)) - self.tv)

    def delta(self, epsilon):
        return super().delta(epsilon) + 2 * self.tv


class Same:
    def __init__(self, f):
        self.f = f

    def __call__(self, alpha, /):
        return self.f(alpha)


def test_what_promises_less_than_its_mu_is_taken_at_its_word():
    assert not is_robust(Charged(1.0), 0.95, 0.05)

    def radius(f):
        return certified_radius(lambda ball: f(ball.radius / 0.5), 0.95, 0.05, norm="l2", dim=1)

    assert radius(Charged) == radius(lambda mu: Same(Charged(mu))) < 0.1 < radius(Gaussian)


def test_composition_keeps_what_a_part_charges_beside_its_mu():
    for whole in (compose(Charged(0.5), Charged(0.5)), compose(Charged(0.5), Gaussian(0.5)), repeat(Charged(0.5), 2)):
        assert all(whole(level) <= Charged(0.5)(level) for level in (0.01, 0.1, 0.3, 0.5))


@pytest.mark.parametrize("kind", [Fraction, np.longdouble])
def test_probabilities_between_two_floats_are_rounded_to_the_safe_side(kind):
    """1 - 1.6e-16 is nearer to 1 - 1.1e-16, of which the quantile is larger."""
    p_plus = kind(10**17 - 16) / kind(10**17)
    exact = mpmath.sqrt(2) * (mpmath.erfinv(1 - 2 * mpf("1.6e-16")) + mpmath.erfinv(1 - 2 * mpf(1.6e-16))) / 2
    assert 8 < rs_radius_l2(1.0, p_plus, 1.6e-16) <= exact
    least = 5e-324
    assert rs_radius_l2(1.0, 0.9, kind(14) / kind(10) * kind(least)) == rs_radius_l2(1.0, 0.9, 2 * least)
    p_minus = kind(16) / kind(10**17)
    assert not_below("p_minus", p_minus) >= p_minus
    assert not_above("p_plus", p_plus) <= p_plus
