import math

import mpmath
import pytest
from mpmath import mpf
from scipy.stats import ncx2

from ars.theory.chi_squared import tail_bounds


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
@pytest.mark.parametrize("z", [-5, 0, 5])
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
