import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.fft import irfft, rfft
from scipy.special import ndtri
from scipy.stats import binom, gennorm

from ars.theory import large_dim_noise, noise_scale, rs_radius_linf, unicr_radius_linf
from ars.theory import unicr as theory
from ars.theory.unicr import composition_level, composition_ratios, differential_bound, differential_radius

TABLE = [0.55, 0.6, 0.9, 0.99, 0.999, 0.9999]
EXTREME = [1 - 1e-6, 1 - 1e-9, 1 - 1e-12]


def gaussian_units(beta, dim, p):
    """The differential radius over the large-d limit."""
    radius = differential_radius(beta, dim, p, 1 - p) * noise_scale(1.0, beta)
    return radius * math.sqrt(dim) / ndtri(p) / large_dim_noise(1.0, beta)


@pytest.mark.parametrize("p", [*TABLE, *EXTREME])
@pytest.mark.parametrize("dim", [1, 192, 3072])
def test_for_gaussian_noise_the_differential_bound_is_the_closed_form(dim, p):
    assert -2e-6 < gaussian_units(2.0, dim, p) - 1 < 0


@pytest.mark.parametrize("p", TABLE)
def test_at_d_3072_the_radius_is_within_5e_5_of_the_large_d_limit(p):
    assert gaussian_units(2.25, 3072, p) == pytest.approx(1, abs=5e-5)


@pytest.mark.parametrize("p", [0.6, 0.9, 0.9999])
def test_laplace_noise_on_a_scalar(p):
    """R = b ln(1 / (2 (1 - p))), and sigma = sqrt(2) b."""
    exact = math.log(1 / (2 * (1 - p)))
    assert unicr_radius_linf(math.sqrt(2), 1.0, 1, p, 1 - p) == pytest.approx(exact, rel=1e-6)
    assert unicr_radius_linf(math.sqrt(2), 1.0, 1, p, 1 - p) < exact


@pytest.mark.parametrize(("p_plus", "p_minus"), [(0.9, 0.1), (0.6, 0.2), (0.9, 0.7), (0.3, 0.2)])
def test_on_a_scalar_the_differential_radius_of_laplace_noise_is_rounded_down(p_plus, p_minus):
    """Psi(p) = min(p, 1 - p), so H(p) = -ln(2 (1 - p)) above 1/2 and ln(2 p) below."""
    above, below = (math.log(2 * p) if p < 0.5 else -math.log(2 * (1 - p)) for p in (p_plus, p_minus))
    exact = (above - below) / 2
    assert differential_radius(1.0, 1, p_plus, p_minus) == pytest.approx(exact, rel=1e-8)
    assert differential_radius(1.0, 1, p_plus, p_minus) < exact * (1 - 1e-12)


@pytest.mark.parametrize("dim", [5, 40])
def test_laplace_scores_are_a_random_walk(dim):
    """For beta = 1 the score sum is 2B - d, B binomial: Psi and its integral from the exact law."""
    sums = 2 * np.arange(dim + 1) - dim
    mass = binom.pmf(np.arange(dim + 1), dim, 0.5)

    def psi(p):
        return np.min(sums * p + np.array([np.maximum(sums - q, 0) @ mass for q in sums]))

    tail = np.geomspace(1e-3, 0.5, 4001)
    values = np.array([1 / psi(p) for p in tail])
    exact = np.sum((values[1:] + values[:-1]) / 2 * np.diff(tail))
    assert differential_bound(1.0, dim)(1 - 1e-3) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(
    ("beta", "dim", "gap"), [(2.25, 1, 3e-6), (2.25, 192, 2e-4), (2.25, 3072, 2e-5), (1.5, 192, 3e-3)]
)
def test_the_two_bounds_differ_by_a_small_one_sided_gap(beta, dim, gap):
    ratios = [ratio for p, ratio in composition_ratios(beta, dim) if p < 0.9999]
    assert len(ratios) >= 3
    assert all(1 - 1e-7 < ratio < 1 + gap for ratio in ratios)


@cache
def noise_quantiles(beta):
    half = gennorm.isf((np.arange(200_000) + 0.5) / 400_000, beta)
    return np.concatenate([-half, half[::-1]])


@pytest.mark.parametrize("beta", [1.5, 2.25, 4.0])
@pytest.mark.parametrize("p", [0.6, 0.99])
def test_the_optimal_test_along_the_all_ones_direction_reaches_one_half_at_the_radius(beta, p):
    """Neyman-Pearson between x and x + r(1, ..., 1): the law of the likelihood ratio, from quantiles of the noise."""
    dim, sigma = 192, 0.5
    radius = unicr_radius_linf(sigma, beta, dim, p, 1 - p)
    shift = radius / noise_scale(sigma, beta)
    x = noise_quantiles(beta)
    step = shift / 300
    size = 2**19
    tails = []
    for sample in (x, x + shift):
        loss = (np.abs(sample) ** beta - np.abs(sample - shift) ** beta) / step
        low = np.floor(loss).astype(int)
        part = np.bincount(low % size, 1 - (loss - low), size) + np.bincount((low + 1) % size, loss - low, size)
        whole = np.roll(irfft(rfft(part / len(x)) ** dim, size), size // 2)
        tails.append(np.cumsum(whole))
    at_x, moved = tails
    keeps = np.interp(p, at_x, moved)
    assert keeps == pytest.approx(0.5, abs=3e-3)
    assert keeps > 0.5 - 2e-5


def test_no_promise_beyond_the_composition():
    """At a slightly larger radius than the composition's the level must be worse, at the reported one better."""
    p = 0.99
    shift = unicr_radius_linf(1.0, 2.25, 192, p, 1 - p) / noise_scale(1.0, 2.25)
    assert composition_level(shift, 2.25, 192) > 1 - p
    assert composition_level(shift * (1 + 2e-4), 2.25, 192) < 1 - p


@pytest.mark.parametrize(
    ("p", "kept"), [(0.6, 0.9), (0.75, 0.8), (0.85, 0.8), (0.92, 0.95), (0.97, 1.0), (0.9999, 1.0)]
)
def test_where_composition_gives_less_the_radius_is_made_smaller_by_the_worse_knot_around_it(monkeypatch, p, kept):
    whole = noise_scale(0.5, 2.25) * differential_radius(2.25, 192, p, 1 - p)
    ratios = ((0.7, 0.9), (0.8, 0.8), (0.9, 0.95), (0.95, 1.2), (0.99, 1.1))
    monkeypatch.setattr(theory, "composition_ratios", lambda beta, dim: ratios)
    radius = unicr_radius_linf(0.5, 2.25, 192, p, 1 - p)
    assert radius == pytest.approx(kept * whole, rel=1e-8)
    assert radius < kept * whole


def test_a_runner_up_bound_helps_and_never_hurts():
    one = unicr_radius_linf(0.5, 2.25, 3072, 0.7, 0.3)
    two = unicr_radius_linf(0.5, 2.25, 3072, 0.7, 0.1)
    assert two == pytest.approx(large_dim_noise(0.5, 2.25) * (ndtri(0.7) - ndtri(0.1)) / 2 / math.sqrt(3072), rel=1e-4)
    assert two > one
    below_half = unicr_radius_linf(0.5, 2.25, 3072, 0.4, 0.2)
    gaussian = large_dim_noise(0.5, 2.25) * (ndtri(0.4) - ndtri(0.2)) / 2 / math.sqrt(3072)
    assert below_half == pytest.approx(gaussian, rel=1e-4)
    assert unicr_radius_linf(0.5, 2.25, 3072, 0.4, 0.4) == 0


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.6, 1 - 1e-12])
def test_imagenet_size(p):
    radius = unicr_radius_linf(0.5, 2.25, 150_528, p, 1 - p)
    limit = large_dim_noise(0.5, 2.25) * ndtri(p) / math.sqrt(150_528)
    assert radius == pytest.approx(limit, rel=3e-5)


def test_beta_2_is_the_gaussian_closed_form():
    assert unicr_radius_linf(0.5, 2.0, 3072, 0.9, 0.1) == rs_radius_linf(0.5, 3072, 0.9, 0.1)


def test_probabilities_between_two_floats_are_rounded_to_the_safe_side():
    p_plus, below = Fraction("0.99999999999999985"), 1 - 2**-52
    for beta in (2.0, 2.25):
        assert unicr_radius_linf(1.0, beta, 3072, p_plus, 0.01) == unicr_radius_linf(1.0, beta, 3072, below, 0.01)
    between = Fraction(5e-324) * Fraction(14, 10)  # nearest to 5e-324, which is too little
    asked, least, next_to_it = (unicr_radius_linf(1.0, 2.0, 3072, 0.99, p) for p in (between, 5e-324, 1e-323))
    assert asked == next_to_it < least


def test_what_is_told_apart_by_rounding_alone_has_no_radius():
    assert all(differential_radius(2.25, 3072, 0.3, 0.3 - gap) == 0 for gap in (0.0, 1e-16, 1e-13, 1e-10))
