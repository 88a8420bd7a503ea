import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf

from ars.theory import Gaussian, GeneralisedNormal, Laplace, repeat

levels = st.floats(min_value=0, max_value=1)
mus = st.floats(min_value=0, max_value=20)


def neyman_pearson(mu, threshold):
    """(type I, type II) errors of the likelihood ratio test "N(mu, 1) if z > threshold", by integration."""

    def density(z):
        return mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)

    level = mpmath.quad(density, [threshold, max(threshold, 0) + 5, mpmath.inf])
    miss = mpmath.quad(lambda z: density(z - mu), [-mpmath.inf, min(threshold, mu) - 5, threshold])
    return level, miss


@pytest.mark.parametrize("mu", [0.0, 0.1, 1.0, 2.5])
@pytest.mark.parametrize("threshold", [-3.0, -0.5, 0.0, 0.7, 2.0, 4.0])
def test_g_mu_is_the_least_type_two_error_between_two_normals(mu, threshold):
    level, miss = neyman_pearson(mu, mpf(threshold))
    rounded_level = float(level)
    # the level is rounded to a float64: f moves by its slope, the likelihood ratio at the threshold
    slope = math.exp(mu * threshold - mu**2 / 2)
    assert Gaussian(mu)(rounded_level) == pytest.approx(float(miss), rel=1e-12, abs=1e-15 * slope)


@pytest.mark.parametrize("mu", [0.0, 1e-9, 0.3, 1.0, 5.0, 12.0])
@pytest.mark.parametrize("level", [1e-300, 1e-17, 1e-5, 0.1, 0.5, 0.75, 1 - 1e-9, 1 - 2.0**-53])
def test_g_mu_is_rounded_down_and_close(mu, level, phi_inv):
    exact = mpmath.ncdf(-phi_inv(level) - mpf(mu))
    value = Gaussian(mu)(level)
    assert value <= exact
    # float64 spacing of the argument, seen through Phi: a relative error of about its square
    argument = abs(-phi_inv(level) - mpf(mu))
    spread = abs(phi_inv(level)) + mpf(mu)
    assert exact - value <= exact * mpf("1e-14") * (1 + (1 + argument) * spread)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.7, 3.0])
@pytest.mark.parametrize("level", [1e-9, 1e-3, 0.02, 0.1, 0.3, 0.45, 0.6, 0.99])
def test_the_laplace_function_is_rounded_down_and_close(shift, level):
    """Against F(F^-1(1 - a) - shift), F(x) = e^x / 2 below 0 and 1 - e^-x / 2 above."""
    quantile = -mpmath.log(2 * mpf(level)) if level < 0.5 else mpmath.log(2 * (1 - mpf(level)))
    moved = quantile - mpf(shift)
    exact = mpmath.exp(moved) / 2 if moved < 0 else 1 - mpmath.exp(-moved) / 2
    value = Laplace(shift)(level)
    assert exact * (1 - mpf("2e-14")) <= value <= exact


@given(levels, mus)
def test_g_mu_is_a_trade_off_function(level, mu):
    value = Gaussian(mu)(level)
    assert 0 <= value <= 1 - level + 2.0**-53


@given(st.floats(min_value=0.01, max_value=0.99), mus)
def test_g_mu_is_its_own_inverse(level, mu):
    """Exchanging the two hypotheses changes nothing: the Gaussian trade-off function is symmetric."""
    f = Gaussian(mu)
    value = f(level)
    if 1e-6 < value < 1 - 1e-6:
        assert f(value) == pytest.approx(level, rel=1e-7)


def test_the_ends_are_exact():
    for mu in (0.0, 1.0, math.inf):
        assert Gaussian(mu)(1.0) == 0.0
    assert Gaussian(1.0)(0.0) == 1.0


@pytest.mark.parametrize("mu", [-1e-300, -1.0, math.nan])
def test_a_negative_privacy_loss_is_refused(mu):
    with pytest.raises(ValueError, match="mu must be at least 0"):
        Gaussian(mu)


@pytest.mark.parametrize("f", [Gaussian(1.0), Laplace(1.0), GeneralisedNormal(1.0, 1.5), repeat(Laplace(0.5), 2)])
@pytest.mark.parametrize("level", [-1e-9, 1.0 + 1e-9, math.nan])
def test_what_is_no_level_of_a_test_is_refused(f, level):
    with pytest.raises(ValueError, match=r"level of a test must lie in \[0, 1\]"):
        f(level)
