import math

import pytest

from ars.certification.schedule import Outcome, Schedule, stopped_by_data


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("sequential", 100), "mode"),
        (("fixed", 0), "n_estimate"),
        (("curve", 100), "radii"),
        (("fixed", 100, (0.1,)), "radii"),
        (("curve", 100, (0.2, 0.1)), "increase"),
        (("curve", 100, (0.1, 0.1)), "increase"),
        (("curve", 100, (-0.1, 0.1)), "at least 0"),
        (("curve", 100, (math.nan,)), "at least 0"),
        (("curve", 100, (0.1, math.nan)), "increase"),
        (("radius", 100), "tolerance"),
        (("fixed", 100, (), 0.01), "tolerance"),
        (("radius", 100, (), 0.0), "tolerance"),
        (("radius", 100, (), math.nan), "tolerance"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        Schedule(*arguments)


def test_the_default_tolerance_is_for_radius_mode_only():
    assert Schedule.of("radius", 100).tolerance == 0.01
    assert Schedule.of("radius", 100, tolerance=0.2).tolerance == 0.2
    assert Schedule.of("fixed", 100).tolerance is None
    with pytest.raises(ValueError, match="tolerance"):
        Schedule.of("fixed", 100, tolerance=0.01)


def test_it_reads_well():
    assert str(Schedule.of("curve", 10_000, radii=[0.25, 0.5])) == "up to 10,000, until decided at 0.25, 0.5"


def test_votes_are_stopped_by_data_in_curve_mode_and_where_an_image_was_given_up():
    assert not stopped_by_data("fixed", "planned")
    assert not stopped_by_data("radius", "planned")
    assert stopped_by_data("radius", "given up")
    assert all(stopped_by_data("curve", ended) for ended in ("planned", "certified", "given up"))


def test_an_outcome_states_the_largest_certified_radius():
    schedule = Schedule("curve", 1000, (0.0, 0.1, 0.2))
    assert [Outcome(schedule, 1000, "given up", (90, 10), certified=k).radius for k in range(4)] == [0, 0, 0.1, 0.2]
