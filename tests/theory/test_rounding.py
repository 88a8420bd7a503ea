import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ars.theory.rounding import ERROR, down, truncate, up

numbers = st.floats(min_value=-1e150, max_value=1e150).filter(lambda value: value == 0 or abs(value) > 1e-150)


@given(numbers)
def test_numbers_move_past_the_error_bound_and_no_further_than_twice_it(value):
    size = abs(Fraction(value))
    for moved in (Fraction(up(value)) - Fraction(value), Fraction(value) - Fraction(down(value))):
        assert Fraction(ERROR) / 2 * size <= moved <= Fraction(ERROR) * 2 * size


@given(st.floats(min_value=-1e-300, max_value=1e-300))
def test_up_moves_past_some_of_the_last_places_where_numbers_have_no_relative_precision(value):
    moved = Fraction(up(value)) - Fraction(value)
    if value > 0:
        assert moved >= max(Fraction(ERROR) / 2 * Fraction(value), 8 * Fraction(5e-324))
    elif value < 0:
        assert moved >= min(-Fraction(value), 8 * Fraction(5e-324))
        assert up(value) <= 0  # a radius or a probability does not become negative on its way down
    else:
        assert moved == 0


def test_what_is_no_number_stays_so():
    assert math.isnan(up(math.nan))
    assert math.isnan(down(math.nan))
    assert (up(math.inf), down(-math.inf)) == (math.inf, -math.inf)


@given(st.floats(min_value=-1e12, max_value=1e12), st.integers(min_value=0, max_value=25))
@example(value=0.29, decimals=2)  # 0.29 * 100 = 28.999999999999996 in float64
@example(value=1.1, decimals=20)  # 1.1 * 1e20 is past 2^53, where floor cuts nothing
@example(value=0.1 + 0.7, decimals=17)
@example(value=5e-324, decimals=3)
@example(value=-0.0005, decimals=3)
def test_a_truncated_radius_is_never_above_the_radius_and_less_than_one_unit_below(value, decimals):
    printed = truncate(value, decimals)
    assert float(printed) <= value
    assert Fraction(value) - Fraction(printed) < Fraction(1, 10**decimals) + Fraction(math.ulp(value))


@pytest.mark.parametrize(
    ("value", "decimals", "printed"),
    [(0.019999999, 3, "0.019"), (0.3, 1, "0.3"), (0.29, 2, "0.29"), (2.0, 0, "2"), (0.9999, 0, "0"), (0.0, 2, "0.00")],
)
def test_decimals_are_cut_and_numbers_that_have_few_are_kept(value, decimals, printed):
    assert truncate(value, decimals) == printed
