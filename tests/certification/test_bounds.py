import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from scipy.stats import binom, binomtest

from ars.certification.bounds import (
    BOUNDS,
    check_alpha,
    class_probabilities,
    least_draws,
    lower_bound,
    most_misses,
    upper_bound,
)

mpmath.mp.dps = 50


def at_least(k, n, p):
    """P(Bin(n, p) >= k), the binomial terms summed at 50 digits until they no longer matter."""
    p = mpf(p)
    if k <= n * p:
        return 1 - at_least(n - k + 1, n, 1 - p)
    q = 1 - p
    term = mpmath.exp(
        mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
        + k * mpmath.log(p) + (n - k) * mpmath.log(q)
    )  # fmt: skip
    total = mpf(0)
    for j in range(k, n + 1):
        total += term
        if term < total * mpf("1e-40"):
            break
        term *= p / q * (n - j) / (j + 1)
    return total


def at_most(k, n, p):
    """P(Bin(n, p) <= k)."""
    return at_least(n - k, n, 1 - mpf(p))


# n, successes and level, with those at which the inverse incomplete beta function is off by more than 1e-9
CASES = [
    (10, 7, 0.05),
    (10, 10, 0.05),
    (10, 1, 0.001),
    (100, 99, 0.001),
    (1_000, 500, 0.05),
    (1_000, 999, 1e-6),
    (10_000, 9_999, 1e-12),
    (50_000, 49_001, 0.1 * 0.001 / 999),
    (50_000, 49_990, 0.05),
    (50_000, 50_000, 0.05),
    (100_000, 3, 0.1 * 0.001 / 9),
    (100_000, 60_000, 0.001),
    (100_000, 99_001, 1e-6),
    (100_000, 99_999, 0.1 * 0.05 / 9),
    (1_000_000, 999_001, 0.001),
]


@pytest.mark.parametrize(("n", "successes", "alpha"), CASES)
def test_lower_bounds_and_upper_bounds_of_few_are_on_the_safe_side_of_the_exact_tail(n, successes, alpha):
    tail = at_least(successes, n, lower_bound(successes, n, alpha))
    assert mpf(alpha) * (1 - mpf("1e-6")) <= tail <= mpf(alpha)
    mirrored = at_most(n - successes, n, upper_bound(n - successes, n, alpha))
    assert mpf(alpha) * (1 - mpf("1e-6")) <= mirrored <= mpf(alpha)


@pytest.mark.parametrize(("n", "successes", "alpha"), [case for case in CASES if case[0] != case[1]])
def test_the_upper_bound_of_many_successes_is_on_the_safe_side_of_the_exact_tail(n, successes, alpha):
    """Close to 1 the float64 numbers are coarse: safe, not tight."""
    bound = upper_bound(successes, n, alpha)
    assert bound <= 1
    assert bound == 1 or at_most(successes, n, bound) <= mpf(alpha)


@given(st.data(), st.integers(1, 2000), st.floats(min_value=1e-6, max_value=0.5))
def test_bounds_agree_with_the_exact_interval_of_scipy(data, n, alpha):
    """scipy finds its root to about 1e-11, absolute, from 1 - alpha."""
    successes = data.draw(st.integers(0, n))
    lower = binomtest(successes, n, 0.5, alternative="greater").proportion_ci(1 - alpha, method="exact").low
    upper = binomtest(successes, n, 0.5, alternative="less").proportion_ci(1 - alpha, method="exact").high
    assert lower_bound(successes, n, alpha) == pytest.approx(lower, rel=1e-7, abs=1e-9)
    assert upper_bound(successes, n, alpha) == pytest.approx(upper, rel=1e-7, abs=1e-9)


@given(st.integers(1, 10**6), st.floats(min_value=1e-12, max_value=0.999))
def test_no_success_shows_nothing_and_only_successes_never_show_certainty(n, alpha):
    assert lower_bound(0, n, alpha) == 0.0
    assert upper_bound(n, n, alpha) == 1.0
    # unanimous: P(Bin(n, p) = n) = p^n
    exact = mpf(alpha) ** (mpf(1) / n)
    assert exact * (1 - mpf("1e-8")) <= lower_bound(n, n, alpha) < exact
    assert (1 - exact) < upper_bound(0, n, alpha) <= (1 - exact) * (1 + mpf("1e-6")) + mpf("1e-9")


def test_unanimous_votes_of_the_published_setting():
    lower, upper = class_probabilities([50_000, 0], 0, 0.05, "cohen")
    quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * mpf(lower) - 1)
    assert mpf("3.84648") <= quantile < mpf("3.84649")
    assert mpf(lower) < mpf("0.05") ** (mpf(1) / 50_000)
    assert upper == 1 - lower


counts = st.lists(st.integers(0, 5000), min_size=2, max_size=12).filter(lambda votes: sum(votes) > 0)


@given(counts, st.data(), st.floats(min_value=1e-6, max_value=0.5))
def test_class_bounds_are_the_union_bound_over_all_classes(votes, data, alpha):
    """Each class at its own level: the levels add up to alpha at most, and each bound is the exact one at its level."""
    top = data.draw(st.integers(0, len(votes) - 1))
    lower, upper = class_probabilities(votes, top, alpha, "classes")
    n, others = sum(votes), [count for label, count in enumerate(votes) if label != top]
    share = alpha / 10 / len(others)
    highest = max(binomtest(k, n, 0.5, alternative="less").proportion_ci(1 - share).high for k in others)
    at = binomtest(votes[top], n, 0.5, alternative="greater").proportion_ci(1 - 0.9 * alpha).low
    assert lower == pytest.approx(at, rel=1e-7, abs=1e-9)
    assert upper == pytest.approx(min(1 - at, highest), rel=1e-6, abs=1e-9)
    assert 0 <= lower < 1
    assert 0 < upper <= 1 - lower


def test_class_bounds_certify_where_cohens_bound_abstains():
    votes = [400] + [60] * 10
    lower, upper = class_probabilities(votes, 0, 0.05, "cohen")
    assert lower < upper
    lower, upper = class_probabilities(votes, 0, 0.05, "classes")
    assert lower > upper


@given(st.floats(min_value=1e-30, max_value=0.5), st.sampled_from(BOUNDS))
def test_least_draws_is_the_first_number_at_which_unanimous_votes_certify(alpha, bound):
    """p^n <= level for p <= 1/2, whatever the number of classes."""
    n = least_draws(alpha, bound)
    level = mpf(alpha) * (mpf("0.9") if bound == "classes" else 1)
    if abs(mpf(2) ** -n / level - 1) > mpf("1e-8") and abs(mpf(2) ** -(n - 1) / level - 1) > mpf("1e-8"):
        assert mpf(2) ** -n < level <= mpf(2) ** -(n - 1)
    for classes in (2, 10, 1000):
        lower, upper = class_probabilities([n] + [0] * (classes - 1), 0, alpha, bound)
        assert lower > upper
        if n > 1:
            lower, upper = class_probabilities([n - 1] + [0] * (classes - 1), 0, alpha, bound)
            assert lower <= upper


@pytest.mark.parametrize("alpha", [0.0, 1e-101, 0.51, 0.95, 1.0, -0.1, 1.5, 95, math.nan])
def test_a_failure_probability_that_says_nothing_is_refused(alpha):
    for call in (
        lambda: check_alpha(alpha),
        lambda: class_probabilities([5, 5], 0, alpha, "cohen"),
        lambda: least_draws(alpha, "cohen"),
    ):
        with pytest.raises(ValueError, match="confidence of 95%"):
            call()


@pytest.mark.parametrize("level", [1e-150, 1e-199, 1e-201, 3.6e-249, 1e-250, 4.7e-309])
@pytest.mark.parametrize(("misses", "n"), [(0, 50_000), (19, 50_000), (38, 50_000), (38, 100_000), (50, 1_000_000)])
def test_bounds_hold_at_levels_where_tails_are_found_to_be_zero(misses, n, level):
    lower, upper = lower_bound(n - misses, n, level), upper_bound(misses, n, level)
    assert lower == 0 or at_least(n - misses, n, lower) <= mpf(level)
    assert upper == 1 or at_least(n - misses, n, 1 - mpf(upper)) <= mpf(level)
    assert (lower > 0.9) == (upper < 0.1) == (level > 1e-200)


@pytest.mark.parametrize(("n", "p", "alpha"), [(100, 0.9, 0.05), (5000, 0.977, 0.0005), (300, 0.5, 0.025)])
def test_most_misses_is_the_edge_of_the_exact_tail(n, p, alpha):
    most = most_misses(n, p, alpha)
    assert binom.sf(n - most - 1, n, p) <= alpha < binom.sf(n - most - 2, n, p)


def test_a_level_at_which_tails_are_found_to_be_zero_allows_nothing():
    assert (most_misses(50_000, 0.9859, 1e-300), most_misses(50_000, 0.5, 1e-250)) == (-1, -1)
    assert most_misses(50_000, 0.9859, 1e-199) > 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([10], 0, 0.05, "classes"), "two classes"),
        (([10, 0], 0, 0.05, "wilson"), "bound"),
        *((([10, 0], top, 0.05, bound), "top") for top in (-1, 2) for bound in BOUNDS),
    ],
)
def test_votes_that_no_class_can_be_bounded_from_are_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        class_probabilities(*arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        *(((5, 10, alpha), "alpha") for alpha in (0.0, 1.0, -0.1, math.nan)),
        *(((successes, n, 0.05), "successes") for successes, n in ((-1, 10), (11, 10), (0, 0), (1, -1))),
    ],
)
def test_impossible_counts_and_levels_are_refused(arguments, named):
    for bound in (lower_bound, upper_bound):
        with pytest.raises(ValueError, match=named):
            bound(*arguments)
