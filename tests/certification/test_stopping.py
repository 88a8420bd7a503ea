import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom, norm

from ars.certification.martingale import log_wealth
from ars.certification.settings import Schedule
from ars.certification.stopping import HOPELESS, CurveRule, FixedRule, Outcome, RadiusRule

GRID = (0.5, 1.0, 2.0)


def curve(radii=GRID, n=20_000, alpha=0.05):
    return CurveRule(Schedule("curve", n, radii), norm.cdf(radii).tolist(), alpha=alpha)


def radius(n=20_000, tolerance=0.05, bound="cohen", alpha=0.05):
    return RadiusRule(Schedule("radius", n, tolerance=tolerance), alpha=alpha, bound=bound)


def follow(rule, selected, path):
    """Feed the votes of a path (draws, classes) -> counts at every look; the final outcome."""
    state, counts = rule.start(np.array([selected])), np.zeros((1, len(selected)), dtype=np.int64)
    while state.going.all():
        n = int(rule.next_look(counts.sum(axis=1), state)[0])
        counts = np.array([path(n)])
        state = rule.look(state, counts)
    return rule.outcomes(state, counts)[0]


def share(p):
    """Votes that fall as evenly as can be, a share p of them for class 0."""
    return lambda n: [math.floor(n * p), n - math.floor(n * p)]


def test_fixed_draws_all_in_one_go_whatever_the_votes():
    rule = FixedRule(Schedule("fixed", 550), alpha=0.05)
    for p in (0.0, 0.5, 1.0):
        outcome = follow(rule, [9, 1], share(p))
        assert (sum(outcome.counts), outcome.planned, outcome.ended) == (550, 550, "planned")
        assert not outcome.stopped_by_data
    assert rule.next_look(np.array([0]), rule.start(np.array([[9, 1]]))) == 550


def test_looks_are_whole_blocks_five_percent_apart_and_the_last_is_the_plan():
    rule, state, looks, drawn = curve(n=20_050), curve(n=20_050).start(np.array([[9, 1]])), [], np.array([0])
    while drawn < 20_050:
        drawn = rule.next_look(drawn, state)
        looks.append(int(drawn[0]))
    assert looks[:20] == list(range(100, 2001, 100))
    assert all(n % 100 == 0 for n in looks[:-1])
    assert looks[-1] == 20_050
    assert max(b / a for a, b in pairwise(looks[20:])) <= 1.05
    assert len(looks) < 100


@pytest.mark.parametrize(
    ("p", "certified", "ended"),
    [(0.3, 0, "given up"), (0.6, 0, "given up"), (0.75, 1, "given up"), (0.9, 2, "given up"), (0.99, 3, "certified")],
)
def test_a_grid_is_decided_where_the_probability_is_clearly_between_two_levels(p, certified, ended):
    """Levels .69, .84, .977."""
    outcome = follow(curve(), [round(100 * max(p, 0.51)), 100 - round(100 * max(p, 0.51))], share(p))
    assert (outcome.certified, outcome.ended) == (certified, ended)
    assert outcome.radius == (0.0, *GRID)[certified]
    assert outcome.p_lower == pytest.approx((0.0, 0.6914624613, 0.8413447461, 0.9772498681)[certified])
    assert sum(outcome.counts) < 3000
    assert outcome.stopped_by_data


def test_the_last_look_is_clopper_and_pearsons_test_at_half_of_alpha():
    """Votes that no bet wins on; one more miss, and the test at alpha/2 does not pass either."""
    n, level = 5000, norm.cdf(1.0)
    rule = curve((1.0,), n=n)
    misses = int(rule.most_misses[0])
    assert binom.sf(n - misses - 1, n, level) <= 0.025 < binom.sf(n - misses - 2, n, level)
    for extra, certified in ((0, 1), (1, 0)):
        state = rule.start(np.array([[84, 16]]))
        state = rule.look(state, np.array([[n - misses - extra, misses + extra]]))
        assert state.certified == certified
    # as many votes in proportion, a little before the end, prove nothing yet
    early = rule.look(rule.start(np.array([[84, 16]])), np.array([[n - misses - 80, misses - 20]]))
    assert early.certified == 0
    assert early.going


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_before_the_last_look_it_takes_wealth_two_over_alpha_under_the_selections_prior(alpha):
    """At every number of votes: neither a smaller threshold nor a prior that has seen these votes would agree."""
    n, level = 1000, norm.cdf(1.0)
    rule = curve((1.0,), alpha=alpha)
    wins = np.arange(n + 1)
    state = rule.look(rule.start(np.tile([88, 12], (n + 1, 1))), np.stack([wins, n - wins], axis=1))
    wealth = np.exp(log_wealth(wins, n, prior=(88.5, 12.5), p0=level))
    assert (state.certified == (wealth >= 2 / alpha)).all()
    # the threshold lies between two numbers of votes that are told apart here
    assert 0 < state.certified.sum() < n
    assert (wealth[state.certified == 0] >= 1 / alpha).any()


def test_radii_out_of_reach_of_n_max_are_given_up_and_a_grid_without_any_other_is_refused():
    """Unanimous votes of 1000 draws: level .99 is in reach at alpha .05, level .9999 is not."""
    outcome = follow(curve((2.3, 3.8), n=1000), [100, 0], share(1.0))
    assert (outcome.certified, outcome.ended) == (1, "given up")
    with pytest.raises(ValueError, match=r"radius 3\.8 .* at least (\d+)") as error:
        curve((3.8,), n=500).check()
    enough = int(str(error.value).split("at least ")[1].split()[0])
    assert follow(curve((3.8,), n=enough), [100, 0], share(1.0)).certified == 1
    curve((3.8,), n=enough).check()
    with pytest.raises(ValueError, match="cannot certify"):
        curve((3.8,), n=enough - 1).check()


def test_radii_without_a_level_are_given_up_or_refused():
    rule = CurveRule(Schedule("curve", 20_000, GRID), norm.cdf(GRID[:2]).tolist(), alpha=0.05)
    outcome = follow(rule, [100, 0], share(1.0))
    assert (outcome.certified, outcome.ended) == (2, "given up")
    with pytest.raises(ValueError, match="radius 2"):
        rule.check()
    none = follow(CurveRule(Schedule("curve", 20_000, GRID), [], alpha=0.05), [100, 0], share(1.0))
    assert (none.certified, none.ended, sum(none.counts)) == (0, "given up", 100)


@pytest.mark.parametrize("n", [1000, 4000, 4900])
def test_an_image_is_given_up_where_the_votes_tell_that_the_last_look_is_out_of_reach(n):
    """At every number of votes that neither a bet nor the misses decide; the chance is that of the posterior."""
    n_max, level, wins = 5000, norm.cdf(1.0), np.arange(n + 1)
    rule = curve((1.0,), n=n_max)
    state = rule.look(rule.start(np.tile([84, 16], (n + 1, 1))), np.stack([wins, n - wins], axis=1))
    allowed = rule.most_misses[0] - (n - wins)
    chance = betabinom.cdf(allowed, n_max - n, n - wins + 16.5, wins + 84.5)
    beaten = log_wealth(n - wins, n, prior=(16.5, 84.5), p0=1 - level) >= math.log(HOPELESS)
    open_ = (state.certified == 0) & (allowed >= 0) & ~beaten
    assert (open_ & ~state.going).any()
    assert chance[open_ & ~state.going].max() < 0.02
    assert chance[open_ & state.going].min() > 0.005


def test_an_image_is_given_up_as_soon_as_too_many_votes_are_lost():
    rule = curve((2.0,), n=1000, alpha=0.001)
    most = int(rule.most_misses[0])
    state = rule.start(np.array([[100, 0]]))
    assert not rule.look(state, np.array([[900 - most - 1, most + 1]])).going


def test_a_nan_certifies_nothing():
    rule = curve()
    rule.p = np.full(3, math.nan)
    state = rule.look(rule.start(np.array([[100, 0]])), np.array([[600, 0]]))
    assert state.certified == 0


def test_a_selection_far_below_a_level_does_not_certify_by_an_underflow():
    """The prior's tail above .977 is below 1e-308: no bet, and unanimous votes wait for the last look."""
    rule = curve((2.0,), n=2000)
    rule._is_hopeless = lambda wins, n, prior, level: np.zeros(len(n), dtype=bool)
    state = rule.start(np.array([[300, 290, 290]]))
    for n in (100, 1000, 1900):
        assert rule.look(state, np.array([[n, 0, 0]])).certified == 0
    assert rule.look(state, np.array([[2000, 0, 0]])).certified == 1


def test_what_has_ended_stays_as_it_is():
    rule = curve()
    state = rule.look(rule.start(np.array([[100, 0], [60, 40]])), np.array([[600, 0], [100, 500]]))
    assert not state.going.any()
    again = rule.look(state, np.array([[600, 6000], [6000, 500]]))
    assert (again.certified == state.certified).all()
    assert (again.ended == state.ended).all()


def test_more_draws_than_planned_are_refused():
    rule = FixedRule(Schedule("fixed", 500), alpha=0.05)
    with pytest.raises(ValueError, match="501"):
        rule.look(rule.start(np.array([[9, 1]])), np.array([[501, 0]]))


@pytest.mark.parametrize("levels", [[0.6, 0.7, 0.8, 0.9], [0.4, 0.6], [0.6, 1.0], [0.7, 0.6], [math.nan]])
def test_levels_that_make_no_sense_are_refused(levels):
    with pytest.raises(ValueError, match="level"):
        CurveRule(Schedule("curve", 1000, GRID), levels, alpha=0.05)


@given(st.lists(st.tuples(st.integers(51, 100), st.floats(0, 1)), min_size=2, max_size=6), st.integers(0, 9))
@settings(max_examples=30)
def test_company_does_not_change_a_decision(images, seed):
    """All together, at looks of their own, and one by one."""
    for rule in (curve(n=3000), radius(n=3000)):
        rng = np.random.default_rng(seed)
        paths = [np.concatenate([[0], (rng.random(3000) < p).cumsum()]) for _, p in images]
        selected = np.array([[votes, 100 - votes] for votes, _ in images])
        alone = [
            follow(rule, one, lambda n, path=path: [int(path[n]), n - int(path[n])])
            for one, path in zip(selected.tolist(), paths, strict=True)
        ]
        state, counts = rule.start(selected), np.zeros_like(selected)
        while state.going.any():
            n = np.where(state.going, rule.next_look(counts.sum(axis=1), state), counts.sum(axis=1))
            wins = np.array([path[k] for path, k in zip(paths, n, strict=True)])
            counts = np.stack([wins, n - wins], axis=1)
            state = rule.look(state, counts)
        assert rule.outcomes(state, counts) == alone


@pytest.mark.parametrize("bound", ["cohen", "classes"])
def test_radius_mode_gives_up_a_class_that_loses_and_goes_on_with_one_that_wins(bound):
    lost = follow(radius(bound=bound), [55, 45], share(0.4))
    assert (lost.ended, lost.stopped_by_data, lost.radius) == ("given up", True, 0.0)
    assert sum(lost.counts) < 2000
    won = follow(radius(bound=bound), [90, 10], share(0.9))
    assert (won.ended, won.stopped_by_data, sum(won.counts)) == ("planned", False, won.planned)


def test_what_looks_hopeless_only_at_the_last_look_has_made_the_planned_draws():
    rule = radius()
    state = rule.start(np.array([[95, 5]]))
    counts = np.array([[0, state.planned[0]]])
    [outcome] = rule.outcomes(rule.look(state, counts), counts)
    assert (outcome.ended, outcome.stopped_by_data) == ("planned", False)


def test_it_takes_wealth_a_hundred_of_the_mirrored_bet_to_give_up():
    wins = np.arange(1001)
    rule = radius(tolerance=0.01)
    state = rule.look(rule.start(np.tile([70, 30], (1001, 1))), np.stack([wins, 1000 - wins], axis=1))
    wealth = np.exp(log_wealth(1000 - wins, 1000, prior=(30.5, 70.5), p0=0.5))
    assert (state.going == (wealth < 100)).all()
    assert 0 < state.going.sum() < 1001


def test_a_class_that_leads_with_less_than_half_is_hopeless_under_cohens_bound_only():
    def path(n):
        return [n - 6 * (n // 10), 3 * (n // 10), 3 * (n // 10)]

    assert follow(radius(bound="cohen"), [40, 30, 30], path).ended == "given up"
    assert follow(radius(bound="classes"), [40, 30, 30], path).ended == "planned"


def test_the_plan_is_made_of_the_selection_draws_alone():
    rule = radius()
    state = rule.start(np.array([[95, 5], [95, 5]]))
    after = rule.look(state, np.array([[100, 0], [60, 40]]))
    assert (after.planned == state.planned).all()
    assert state.planned[0] == state.planned[1]
    assert (replace(after, ended=state.ended).planned < 20_000).all()


def test_an_outcome_states_the_largest_certified_radius():
    schedule = Schedule("curve", 1000, (0.0, 0.1, 0.2))
    assert [Outcome(schedule, 1000, "given up", (90, 10), certified=k).radius for k in range(4)] == [0, 0, 0.1, 0.2]
