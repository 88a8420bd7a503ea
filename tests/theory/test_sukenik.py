import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, ncx2

from ars.smoothing.gaussian import SCALE_ERROR
from ars.theory import UnsupportedThreat, rs_radius_l2, sukenik_radius
from ars.theory import sukenik as theory
from ars.theory.sukenik import MOST_SIZE, _level, tail_bounds, worst_level

GOLDEN = {
    3072: [0.1179, 0.5964, 1.0825, 1.4377],
    12_288: [0.0997, 0.5040, 0.9144, 1.2142],
    27_648: [0.0821, 0.4148, 0.7525, 0.9991],
}
P = [0.6, 0.9, 0.99, 0.999]


def xi(distance, s0, s1, dim, p_a):
    """The paper's bound on the runner-up's probability at s1, by SciPy's non-central chi-squared."""
    if s1 == s0:
        return ndtr(distance / s0 - ndtri(p_a))
    square = (s0**2 - s1**2) ** 2
    near, far = s0**2 * distance**2 / square, s1**2 * distance**2 / square
    if s1 < s0:
        return ncx2.cdf(ncx2.ppf(1 - p_a, dim, near) * s0**2 / s1**2, dim, far)
    return ncx2.sf(ncx2.ppf(p_a, dim, near) * s0**2 / s1**2, dim, far)


@pytest.mark.parametrize(
    ("dim", "p", "expected"),
    [(dim, p, value) for dim, row in GOLDEN.items() for p, value in zip(P, row, strict=True)],
)
def test_golden_radii(dim, p, expected):
    assert sukenik_radius(0.5, 0.01, dim, p) == pytest.approx(expected, abs=5.1e-5)
    assert sukenik_radius(0.5, 0.01, dim, p, norm="linf") == pytest.approx(expected / math.sqrt(dim), rel=1e-3)


@pytest.mark.parametrize(("p", "expected"), [*zip(P, [0.1267, 0.6408, 1.1632, 1.5451], strict=True)])
def test_constant_noise_is_cohen(p, expected):
    assert sukenik_radius(0.5, 0.0, 3072, p) == rs_radius_l2(0.5, p, 1 - p)
    assert sukenik_radius(0.5, 0.0, 3072, p) == pytest.approx(expected, abs=5.1e-5)
    assert sukenik_radius(0.5, 1e-6, 3072, p) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("dim", [192, 3072, 27_648])
@pytest.mark.parametrize("p", [0.6, 0.99])
@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_inside_the_radius_no_distance_and_no_noise_level_breaks_it_and_an_end_is_the_worst(dim, p, sigma):
    rate = 0.01
    radius = sukenik_radius(sigma, rate, dim, p)
    for distance in np.array([0.02, 0.3, 0.7, 1.0]) * radius:
        logs = np.linspace(-rate * distance, rate * distance, 41)
        values = np.array([xi(distance, sigma, sigma * math.exp(log), dim, p) for log in logs])
        assert np.all(values < 0.5)
        assert values.max() == pytest.approx(max(values[0], values[-1]), abs=1e-9)
    beyond = radius * (1 + 5e-4)  # the room for noise that is rounded to float32
    assert max(xi(beyond, sigma, sigma * math.exp(sign * rate * beyond), dim, p) for sign in (-1, 1)) > 0.5


@pytest.mark.parametrize("dim", [192, 3072, 27_648])
@pytest.mark.parametrize("moved", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("log_ratio", [-0.02, -0.005, 0.005, 0.02])
def test_each_end_has_the_level_at_which_xi_is_one_half(dim, moved, log_ratio):
    level = _level(moved, log_ratio, dim)
    other = math.exp(log_ratio)
    assert xi(moved, 1.0, other, dim, 1 - level) == pytest.approx(0.5, abs=1e-6)
    assert xi(moved, 1.0, other, dim, 1 - level * (1 - 1e-4)) < 0.5 < xi(moved, 1.0, other, dim, 1 - level * (1 + 1e-4))


@pytest.mark.parametrize("dim", [192, 3072, 27_648])
@pytest.mark.parametrize("p", P)
def test_the_label_is_proved_to_hold_at_the_radius_itself_in_both_norms(dim, p):
    radius = sukenik_radius(0.5, 0.01, dim, p)
    assert worst_level(radius, 0.5, 0.01, dim) > 1 - p
    assert worst_level(radius * (1 + 1e-7), 0.5, 0.01, dim) < 1 - p
    for rate in (0.0, 0.01):
        l2, linf = (mpf(sukenik_radius(0.5, rate, dim, p, norm=norm)) for norm in ("l2", "linf"))
        assert l2 * (1 - mpf("1e-14")) < linf * mpmath.sqrt(dim) < l2


@pytest.mark.parametrize(("moved", "log_ratio"), [(0.3, -0.02), (3.0, -0.005), (0.1, 0.005), (0.5, 0.02)])
def test_a_level_is_the_lower_bound_for_a_region_with_at_most_half_of_the_mass(moved, log_ratio, monkeypatch):
    seen = []

    def noted(*at, upper):
        seen.append(tail_bounds(*at, upper=upper))
        return seen[-1]

    monkeypatch.setattr(theory, "tail_bounds", noted)
    level = _level(moved, log_ratio, 192)
    *_, (_, half), (low, high) = seen
    assert half <= 0.5
    assert level == low < high


def test_the_worst_level_is_that_of_the_worse_end(monkeypatch):
    for lower, upper in ((0.1, 0.3), (0.3, 0.1)):
        monkeypatch.setattr(theory, "_level", lambda moved, log, dim, at=(lower, upper): at[log > 0])
        assert worst_level(0.5, 0.5, 0.01, 3072) == 0.1


@pytest.mark.parametrize("dim", [192, 3072, 27_648])
@pytest.mark.parametrize(("sigma", "p"), [(0.5, 0.99), (1.5, 0.6), (1.5, 0.99)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_noise_that_float32_rounds_apart_at_both_images_is_covered(dim, sigma, p, sign):
    rate, ulp = 0.01, 2.0**-24
    radius = sukenik_radius(sigma, rate, dim, p)
    scale = sigma * (1 + SCALE_ERROR)
    here, there = scale * (1 - sign * ulp), scale * math.exp(sign * rate * radius) * (1 + sign * ulp)
    assert xi(radius, here, there, dim, p) < 0.5


@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("dim", "p"), [(192, 0.9), (3072, 0.6), (27_648, 0.99)])
def test_monte_carlo_at_the_radius_on_both_sides(dim, p, sign, seed):
    """Draw from both normals, order by the likelihood ratio, and see the worst region's mass at x'."""
    sigma, rate, n = 0.5, 0.01, 1_000_000
    radius = sukenik_radius(sigma, rate, dim, p)
    other = sigma * math.exp(sign * rate * radius)
    rng = np.random.default_rng(seed)

    def log_ratio(mean, std):
        """Only the coordinate along x' - x and the squared rest matter."""
        along = mean + std * rng.standard_normal(n)
        rest = std**2 * rng.chisquare(dim - 1, n)
        return (along**2 + rest) / (2 * sigma**2) - ((along - radius) ** 2 + rest) / (2 * other**2)

    threshold = np.quantile(log_ratio(0.0, sigma), p)
    moved = np.mean(log_ratio(radius, other) > threshold)
    # of the count, and of the threshold, seen through the nearly normal densities at both ends
    error = 5.6 * math.sqrt(0.25 / n + p * (1 - p) / n * math.exp(ndtri(p) ** 2))
    assert moved < 0.5 + error
    if sign > 0:  # the binding side
        assert moved > 0.5 - error


@pytest.mark.parametrize("dim", [192, 150_528])
@pytest.mark.parametrize("sigma", [0.05, 0.12, 1.5])
@pytest.mark.parametrize("p", [0.5 + 1e-9, 0.6, 1 - 1e-12, 1 - 2.0**-53])
def test_extremes_are_finite_and_safe(dim, sigma, p):
    radius = sukenik_radius(sigma, 0.01, dim, p)
    assert 0 <= radius < rs_radius_l2(sigma, p, 1 - p)
    if 0.6 <= p < 1 - 1e-13:
        # the log-likelihood ratio is nearly normal, of variance (a/s)^2 (1 + 2 d rate^2 s^2)
        rough = rs_radius_l2(sigma, p, 1 - p) / math.sqrt(1 + 2 * dim * (0.01 * sigma) ** 2)
        assert radius == pytest.approx(rough, rel=0.06)


def xi_by_integration(distance, s0, s1, dim, p_a):
    """The same bound by a sum over the coordinate along x' - x, the rest being a central chi-squared."""
    unit = np.linspace(-12, 12, 2001)
    weights = np.exp(-(unit**2) / 2) / np.exp(-(unit**2) / 2).sum()
    slope = 1 / (2 * s0**2) - 1 / (2 * s1**2)

    def above(threshold, mean, std):
        """The probability that the log-likelihood ratio of x' to x is above the threshold."""
        along = mean + std * unit
        rest = (threshold - along**2 / (2 * s0**2) + (along - distance) ** 2 / (2 * s1**2)) / slope / std**2
        return float(weights @ (chi2.sf if slope > 0 else chi2.cdf)(rest, dim - 1))

    middle, width = slope * s0**2 * dim, 60 * (distance / s0 + abs(slope) * s0**2 * math.sqrt(2 * dim))
    threshold = brentq(lambda at: above(at, 0.0, s0) - (1 - p_a), middle - width, middle + width, xtol=1e-13)
    return above(threshold, distance, s1)


def test_both_ways_to_the_bound_agree():
    for dim, p, other in ((192, 0.9, 0.49), (3072, 0.99, 0.505), (27_648, 0.6, 0.4995)):
        assert xi_by_integration(0.4, 0.5, other, dim, p) == pytest.approx(xi(0.4, 0.5, other, dim, p), rel=1e-6)


@pytest.mark.parametrize("dim", [196_608, pytest.param(786_432, marks=pytest.mark.slow), 1_190_000, 1_199_990])
@pytest.mark.parametrize(("sigma", "rate"), [(0.25, 0.001), (0.02, 0.01)])
def test_large_images_have_a_radius_however_sure_the_label_is(dim, sigma, rate):
    for p in (0.75, 0.9999, 1 - 1e-9, 1 - 2.0**-53):
        radius = sukenik_radius(sigma, rate, dim, p)
        assert 0 < radius < rs_radius_l2(sigma, p, 1 - p)
        assert worst_level(radius, sigma, rate, dim) > 1 - p
        for sign in (-1, 1) if p < 1 - 1e-10 else ():
            assert xi_by_integration(radius, sigma, sigma * math.exp(sign * rate * radius), dim, p) < 0.5
    if dim < 200_000:  # where there is much room, little is lost
        rough = rs_radius_l2(sigma, 0.9999, 1e-4) / math.sqrt(1 + 2 * dim * (rate * sigma) ** 2)
        assert sukenik_radius(sigma, rate, dim, 0.9999) == pytest.approx(rough, rel=0.06)


def test_images_that_are_too_large_are_refused_at_once_and_at_the_limit_nothing_is_proved():
    assert sukenik_radius(0.25, 0.001, MOST_SIZE, 0.99) == 0
    with pytest.raises(ValueError, match="a sum of at most 1200000"):
        sukenik_radius(0.25, 0.001, MOST_SIZE + 1, 0.51)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5])
def test_no_majority_no_radius(p):
    assert sukenik_radius(0.5, 0.01, 3072, p) == 0


@pytest.mark.parametrize(("sigma", "rate"), [(0.0, 0.01), (math.inf, 0.01), (0.5, -0.01), (0.5, math.nan)])
def test_what_has_no_certificate_is_refused(sigma, rate):
    with pytest.raises(ValueError, match="need a positive sigma"):
        sukenik_radius(sigma, rate, 3072, 0.9)


def test_what_no_proof_covers_is_refused():
    with pytest.raises(UnsupportedThreat, match="norm must be one of l2, linf, got 'l1'"):
        sukenik_radius(0.5, 0.01, 3072, 0.9, norm="l1")
    for dim in (0, -1):
        with pytest.raises(ValueError, match="dim must be a whole number of at least 1"):
            sukenik_radius(0.5, 0.0, dim, 0.9, norm="l2")


@pytest.mark.parametrize("rate", [0.0, 1e-9])
@pytest.mark.parametrize("p_plus", ["0.99999999999999985", "0.500000000000000056"])
def test_a_probability_between_two_floats_is_rounded_down(p_plus, rate):
    with mpmath.workdps(60):
        exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpf(p_plus) - 1)
    assert sukenik_radius(1.0, rate, 1, Fraction(p_plus)) < exact


def exact_tails(x, dim, noncentrality):
    """(P(X <= x), P(X > x)) to 50 digits: the Poisson mixture, each term from the next by P(a) = P(a + 1) + density."""
    mpmath.mp.dps = 60
    half, mean = mpf(x) / 2, mpf(noncentrality) / 2
    last = int(mean + 20 * math.sqrt(noncentrality) + 60)
    a = mpf(dim) / 2 + last
    series, term, k = mpf(1), mpf(1), 0
    while term > series * mpf(10) ** -50:
        k += 1
        term *= half / (a + k)
        series += term
    density = mpmath.exp(a * mpmath.log(half) - half - mpmath.loggamma(a + 1))  # x^a e^-x / Gamma(a + 1)
    central = density * series
    weight = mpmath.exp(last * mpmath.log(mean) - mean - mpmath.loggamma(last + 1))
    total = mpf(0)
    for j in range(last, -1, -1):
        total += weight * central
        density *= a / half
        central += density
        weight *= j / mean
        a -= 1
    return total, 1 - total


@pytest.mark.parametrize(
    ("dim", "noncentrality"), [(192, 3.0), (192, 10_000.0), (3072, 10_000.0), (27_648, 1_111.0), (150_528, 10_000.0)]
)
@pytest.mark.parametrize("z", [-7, -5, -2, 0, 2, 5, 7])
def test_the_bounds_hold_the_exact_tails_between_them(dim, noncentrality, z):
    x = dim + noncentrality + z * math.sqrt(2 * (dim + 2 * noncentrality))
    for upper, exact in zip((False, True), exact_tails(x, dim, noncentrality), strict=True):
        low, high = tail_bounds(x, dim, noncentrality, upper=upper)
        assert low <= exact <= high
        assert high - low <= 3e-9 * exact + 2e-25


@pytest.mark.parametrize("dim", [192, 150_528])
@pytest.mark.parametrize("noncentrality", [173_611.0, 1_000_000.0])
@pytest.mark.parametrize("z", [-5, 5])
def test_agrees_with_an_independent_implementation_where_that_works(dim, noncentrality, z):
    x = dim + noncentrality + z * math.sqrt(2 * (dim + 2 * noncentrality))
    for upper, reference in ((False, ncx2.cdf), (True, ncx2.sf)):
        low, high = tail_bounds(x, dim, noncentrality, upper=upper)
        assert (low + high) / 2 == pytest.approx(reference(x, dim, noncentrality), rel=1e-8)


def test_the_central_law_and_the_edge():
    assert tail_bounds(3.0, 1, 0.0, upper=False)[0] == pytest.approx(math.erf(math.sqrt(1.5)), rel=1e-8)
    assert tail_bounds(0.0, 5, 2.0, upper=True) == (1.0, 1.0)
    assert tail_bounds(-1.0, 5, 2.0, upper=False) == (0.0, 0.0)


@pytest.mark.parametrize(("dim", "noncentrality"), [(0, 1.0), (5, -1.0), (5, math.nan), (5, 1e9), (10**9, 1.0)])
def test_sizes_that_were_not_checked_are_refused(dim, noncentrality):
    with pytest.raises(ValueError, match="need dim >= 1"):
        tail_bounds(1.0, dim, noncentrality, upper=True)
