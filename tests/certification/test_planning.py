import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv, ndtri
from scipy.stats import beta

from ars.certification.bounds import least_draws
from ars.certification.planning import PRIOR_HITS, PRIOR_MISSES, plan_draws

SETTING = {"alpha": 0.05, "bound": "cohen", "n_max": 50_000, "tolerance": 0.05}

votes = st.lists(st.integers(0, 100), min_size=2, max_size=10).filter(any)


@given(votes, st.sampled_from(["cohen", "classes"]), st.integers(10, 30_000))
@settings(max_examples=25)
def test_a_plan_is_whole_blocks_enough_to_certify_and_never_more_than_allowed(selected, bound, n_max):
    plan = plan_draws(selected, **{**SETTING, "bound": bound, "n_max": n_max})
    assert least_draws(0.05, bound) <= plan <= n_max
    assert plan % 100 == 0 or plan == n_max
    assert plan == plan_draws(selected[::-1], **{**SETTING, "bound": bound, "n_max": n_max})


@pytest.mark.parametrize("bound", ["cohen", "classes"])
def test_a_plan_is_enough_to_certify_where_one_block_is_not(bound):
    least = least_draws(1e-60, bound)
    assert least > 100
    assert plan_draws([100, 0], **{**SETTING, "bound": bound, "alpha": 1e-60, "tolerance": 0.99}) >= least


@pytest.mark.parametrize("selected", [[100, 0], [97, 3], [80, 20], [55, 45]])
@pytest.mark.parametrize("tolerance", [0.01, 0.05])
def test_the_expected_radius_is_within_the_tolerance_and_barely(selected, tolerance):
    """Simulated: p from the posterior, votes from p, radius from the votes, with common p for both N."""
    plan = plan_draws(selected, **{**SETTING, "tolerance": tolerance})
    rng = np.random.default_rng(0)
    p = beta.ppf((np.arange(40_000) + 0.5) / 40_000, selected[0] + PRIOR_HITS, selected[1] + PRIOR_MISSES)

    def expected(n):
        hits = rng.binomial(n, p)
        return np.maximum(0, ndtri(betaincinv(np.maximum(hits, 0.5), n - hits + 1, 0.05))).mean()

    full, planned, half = expected(50_000), expected(plan), expected(max(100, plan // 2))
    assert 1 - planned / full == pytest.approx(tolerance, rel=0.3)
    assert half < planned


@pytest.mark.parametrize("n_max", [10_000, 50_000, 100_000])
@pytest.mark.parametrize("tolerance", [0.01, 0.05])
def test_votes_that_stay_unanimous_lose_at_most_half_as_much_again(n_max, tolerance):
    """With half of a prior miss they would lose more than twice the tolerance."""
    plan = plan_draws([100, 0], **{**SETTING, "n_max": n_max, "tolerance": tolerance})
    full, planned = (ndtri(0.05 ** (1 / n)) for n in (n_max, plan))
    assert tolerance < 1 - planned / full <= 1.5 * tolerance


def test_class_bounds_plan_for_a_leading_class_that_has_no_majority():
    few = plan_draws([30] + [10] * 7, **SETTING)
    more = plan_draws([30] + [10] * 7, **{**SETTING, "bound": "classes"})
    assert 100 <= few <= 50_000
    assert 100 <= more < 50_000
