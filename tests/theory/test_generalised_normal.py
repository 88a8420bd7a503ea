import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.integrate import quad
from scipy.stats import gennorm

from ars.theory import Gaussian, GeneralisedNormal, Laplace, large_dim_noise, noise_scale

LEVELS = [1e-12, 1e-5, 0.1, 0.3, 0.5, 0.7, 0.999]


@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0, 2.25, 4.0, 20.0])
def test_the_scale_gives_the_stated_standard_deviation(beta):
    assert gennorm(beta, scale=noise_scale(0.5, beta)).std() == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("beta", "expected"),
    [(2.25, 0.99394), (2.1, 0.99892), (2.5, 0.97958), (1.5, 0.95531), (4.0, 0.85410), (2.0, 1.0)],
)
def test_large_dim_noise(beta, expected):
    assert large_dim_noise(1.0, beta) == pytest.approx(expected, abs=5e-6)
    scale = noise_scale(1.0, beta)
    score = quad(lambda x: (beta / scale * (x / scale) ** (beta - 1)) ** 2 * gennorm.pdf(x, beta, scale=scale), 0, 40)
    assert large_dim_noise(1.0, beta) == pytest.approx(1 / math.sqrt(2 * score[0]), rel=1e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
def test_special_shapes_are_laplace_and_gaussian(shift, level):
    assert GeneralisedNormal(shift, 1.0)(level) == pytest.approx(Laplace(shift)(level), rel=1e-10)
    assert GeneralisedNormal(shift, 2.0)(level) == pytest.approx(Gaussian(shift * math.sqrt(2))(level), rel=1e-9)


@pytest.mark.parametrize("shift", [0.0, 0.4, 2.0])
@pytest.mark.parametrize("level", [1e-5, 0.1, 0.3, 0.7])
@pytest.mark.parametrize("beta", [1.2, 2.25, 5.0])
def test_the_trade_off_function_is_below_the_exact_one(beta, level, shift):
    def survival(x):
        tail = mpmath.gammainc(1 / mpf(beta), abs(x) ** mpf(beta), regularized=True) / 2
        return tail if x >= 0 else 1 - tail

    quantile = mpmath.findroot(lambda x: survival(x) - mpf(level), mpf(gennorm.isf(level, beta)))
    exact = survival(mpf(shift) - quantile)
    assert exact * (1 - mpf("1e-10")) <= GeneralisedNormal(shift, beta)(level) < exact


@pytest.mark.parametrize(("shift", "beta"), [(0.02, 2.25), (1.0, 2.25), (0.5, 1.0), (0.7, 1.3), (0.4, 5.0)])
def test_delta_is_the_hockey_stick_divergence(shift, beta):
    epsilon = np.array([0.0, 0.25, 0.5, 1.0, 1.4]) * shift
    x, width = np.linspace(-12, 12, 2_000_001, retstep=True)
    near, far = gennorm.pdf(x - shift, beta), gennorm.pdf(x, beta)
    exact = [np.maximum(near - math.exp(value) * far, 0).sum() * width for value in epsilon]
    assert GeneralisedNormal(shift, beta).delta(epsilon) == pytest.approx(exact, abs=2e-6)


@pytest.mark.parametrize("beta", [0.9, 0.0, -1.0, math.inf, math.nan])
def test_a_shape_that_is_not_log_concave_is_refused(beta):
    with pytest.raises(ValueError, match="beta must be at least 1"):
        GeneralisedNormal(1.0, beta)


@pytest.mark.parametrize("part", [lambda: Laplace(-1.0), lambda: GeneralisedNormal(math.nan, 2.25)])
def test_a_shift_is_a_distance(part):
    with pytest.raises(ValueError, match="shift must be at least 0"):
        part()
