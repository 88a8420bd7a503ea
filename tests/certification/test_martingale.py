import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from scipy.special import betaincc
from scipy.stats import binom

from ars.certification.martingale import level_of, levels_of, log_wealth, reaches
from ars.theory import rs_radius_l2

mpmath.mp.dps = 50
SIGMA = 0.5


def wealth(successes, n, prior, p0):
    return log_wealth(successes, n, prior=prior, p0=p0)


def integrated(successes, n, prior, p0):
    """M_n as what it is: the likelihood ratio averaged over the prior above p0, by quadrature."""
    (a, b), rest = prior, 1 - mpf(p0)

    def density(miss):
        return (1 - miss) ** (mpf(a) - 1) * miss ** (mpf(b) - 1)

    def ratio(miss):
        return ((1 - miss) / mpf(p0)) ** successes * (miss / rest) ** (n - successes)

    points = [0, rest / 64, rest / 2, rest]
    return mpmath.quad(lambda miss: density(miss) * ratio(miss), points) / mpmath.quad(density, points)


@pytest.mark.parametrize("p0", [0.5, 0.9, 0.999])
@pytest.mark.parametrize(("successes", "n"), [(0, 0), (1, 1), (0, 3), (60, 60), (57, 60), (40, 60)])
@pytest.mark.parametrize("prior", [(0.5, 0.5), (20.5, 1.5), (6.5, 4.5)])
def test_it_is_the_likelihood_ratio_averaged_over_the_prior_above_the_level(p0, successes, n, prior):
    expected = float(mpmath.log(integrated(successes, n, prior, p0)))
    assert wealth(successes, n, prior, p0) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("p0", [0.5, 0.77, 0.95, 0.999])
@pytest.mark.parametrize("prior", [(0.5, 0.5), (100.5, 0.5), (60.5, 40.5), (3.5, 97.5)])
@pytest.mark.parametrize("n", [1, 7, 50, 400])
def test_its_mean_is_at_most_one_wherever_the_claim_is_false(p0, prior, n):
    """Exact binomial sums; the mean is 1 at p = p0, so nothing is given away."""
    k = np.arange(n + 1)
    value = np.exp(wealth(k, n, prior, p0))
    for p in p0 * np.array([0.3, 0.8, 0.99, 1]):
        assert binom.pmf(k, n, p) @ value <= 1 + 1e-11
    if value.all():
        assert binom.pmf(k, n, p0) @ value == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("p0", [0.5, 0.9, 0.999])
def test_one_more_draw_never_raises_it_on_average(p0):
    prior, n = (48.5, 2.5), np.arange(0, 300, 7)[:, None]
    k = np.arange(300)[None]
    now, lost, won = (np.exp(wealth(k + won, n + more, prior, p0)) for won, more in ((0, 0), (0, 1), (1, 1)))
    # wealth that underflowed may come back: it was below the exact one then, and is not above it now
    known = (k <= n) & (now > 0)
    for p in (p0 / 2, p0 - 1e-3, p0):
        after = p * won + (1 - p) * lost
        assert (after <= now * (1 + 1e-9))[known].all()


@pytest.mark.parametrize("n", [10_000, 1_000_000])
@pytest.mark.parametrize("p0", [0.5, 0.9, 0.9999, 1 - 2.0**-40])
def test_it_is_below_the_exact_value_and_close_to_it(n, p0):
    """Many draws, where log gamma functions cancel; the ratios of incomplete beta functions are taken as they are."""
    a, b = 99.5, 1.5
    for k in {round(n * p0), round(n * (p0 + 1) / 2), n}:
        value = float(wealth(k, n, (a, b), p0))
        if not math.isfinite(value):
            continue
        high, low, log_p, log_q = mpf(k + a), mpf(n - k + b), mpmath.log(mpf(p0)), mpmath.log(1 - mpf(p0))
        log_beta = [
            mpmath.loggamma(x) + mpmath.loggamma(y) - mpmath.loggamma(x + y) for x, y in ((high, low), (mpf(a), mpf(b)))
        ]
        ratio = mpmath.log(mpf(betaincc(float(high), float(low), p0))) - mpmath.log(mpf(betaincc(a, b, p0)))
        exact = log_beta[0] - log_beta[1] + ratio - k * log_p - (n - k) * log_q
        assert exact - mpf("1e-6") < value <= exact


@pytest.mark.parametrize(
    ("a", "b", "p0"),
    [(10.5, 90.5, 0.9), (50.5, 50.5, 0.999), (5.5, 95.5, 0.9999), (300.5, 700.5, 0.7), (90.5, 10.5, 0.99999)],
)
def test_the_tail_of_a_prior_far_below_the_level_keeps_its_digits(a, b, p0):
    """Its logarithm is subtracted: a tail too small would be wealth that is not there."""
    tail = betaincc(a, b, p0)
    exact = mpmath.betainc(b, a, 0, 1 - mpf(p0), regularized=True)
    assert tail == pytest.approx(float(exact), rel=1e-11)


def test_a_tail_that_underflows_is_no_wealth():
    """The posterior's, the prior's, of which minus the logarithm is infinite, and one that is subnormal."""
    assert betaincc(100.5, 5_000_100.5, 0.9) == betaincc(50.5, 950.5, 0.9) == 0
    assert wealth(100, 5_000_100, (0.5, 0.5), 0.9) == wealth(1000, 1000, (50.5, 950.5), 0.9) == -math.inf
    b = next(b for b in np.arange(1.5, 2000.0) if 0 < betaincc(10.5, b, 0.5) < 2.3e-308)
    assert wealth(1000, 1000, (10.5, b), 0.5) == -math.inf


@pytest.mark.parametrize("place", range(4))
def test_nan_is_no_wealth(place):
    successes, n, a, p0 = (math.nan if at == place else value for at, value in enumerate((5, 10, 0.5, 0.9)))
    assert wealth(successes, n, (a, 0.5), p0) == -math.inf


@pytest.mark.parametrize("p0", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("target", [2 / 0.05, 2 / 0.001, 100.0])
def test_wealth_is_reached_exactly_where_computing_it_everywhere_says_so(p0, target):
    """Nothing is lost by computing it only where the largest likelihood ratio allows it."""
    n, k = (grid.ravel() for grid in np.meshgrid([0, 1, 50, 400, 3000], np.arange(0, 3001, 3)))
    n, k = n[k <= n], k[k <= n]
    a, b, level = np.full(len(n), 95.5), np.full(len(n), 5.5), np.full(len(n), p0)
    expected = (k >= n * p0) & (log_wealth(k, n, prior=(a, b), p0=level) >= np.log(target))
    assert (reaches(target, k, n, prior=(a, b), p0=level) == expected).all()
    assert expected.any()


def gaussian(p):
    return rs_radius_l2(SIGMA, p, 1 - p)


@given(st.floats(min_value=1e-6, max_value=3.9))
def test_the_level_of_a_gaussian_is_phi_rounded_up(radius):
    level = level_of(gaussian, radius)
    assert gaussian(level) >= radius
    exact = mpmath.ncdf(mpf(radius) / mpf(SIGMA))
    assert exact < level < mpmath.ncdf(mpf(radius) / mpf(SIGMA) * (1 + mpf("2e-6"))) + mpf("2e-16")


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
