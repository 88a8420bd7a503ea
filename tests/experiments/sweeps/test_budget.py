import pytest

from ars.experiments.sweeps.budget import Budget


def test_work_ends_before_a_piece_that_would_end_too_late():
    # asked after pieces of 10 seconds; at 50 one more would end at 60, and then it must still be saved
    ticks = iter([0.0, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 60.0])
    budget = Budget(1, clock=lambda: next(ticks))
    enough = budget.watch()
    assert [enough() for _ in range(5)] == [False, False, False, False, True]
    assert budget.spent
    assert budget.watch()()


def test_the_first_piece_may_be_expected_to_take_long():
    budget = Budget(1, clock=lambda: 0.0)
    assert not budget.watch(57)()
    assert budget.watch(59)()


def test_within_a_piece_time_is_over_once_there_is_just_enough_to_save():
    now = 0.0
    budget = Budget(1, clock=lambda: now)
    assert not budget.over()
    now = 57.9
    assert not budget.over()
    now = 58.1
    assert budget.over()
    assert budget.spent


def test_no_minutes_are_no_limit():
    now = 0.0
    budget = Budget(clock=lambda: now)
    enough = budget.watch()
    now = 1e9
    assert not enough()
    assert not budget.over()
    with pytest.raises(ValueError, match="--minutes must be at least 0"):
        Budget(-1)
