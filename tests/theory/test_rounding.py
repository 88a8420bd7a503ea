import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ars.theory import Ball, Gaussian, certified_radius, split_noise, sukenik_radius, unicr_radius_linf
from ars.theory.composition import noise_of_share, repeat, total_noise
from ars.theory.generalised_normal import check_shape
from ars.theory.rounding import ERROR, as_number, as_whole, down, truncate, up

NO_NUMBERS = ["0.5", None, True, [0.5], np.array([0.5, 0.25]), 0.5j, b"1"]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_gets_one_sentence_with_its_name(value):
    def guarantee(ball):
        return Gaussian(ball.radius)

    for name, ask in {
        "x": lambda: as_number("x", value),
        "radius": lambda: Ball("l2", 3, value),
        "p_plus": lambda: certified_radius(guarantee, value, 0.1, norm="l2", dim=3),
        "p_minus": lambda: certified_radius(guarantee, 0.9, value, norm="l2", dim=3),
        "sigma": lambda: split_noise(value, first=2.0),
        "first": lambda: split_noise(0.1, first=value),
        "share": lambda: noise_of_share(0.5, value),
        "beta": lambda: check_shape(value),
        "rate": lambda: sukenik_radius(0.5, value, 3, 0.9),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} must be a number, got "):
            ask()
    with pytest.raises(ValueError, match="sigma must be a number"):
        total_noise([0.5, value])
    with pytest.raises(ValueError, match="p_plus must be a number"):
        unicr_radius_linf(0.5, 2.25, 3, value, 0.1)


@pytest.mark.parametrize("value", ["3", None, True, 3.0, 2.5, math.nan, [3], 0, -1, np.float64(3)], ids=repr)
def test_what_is_no_whole_number_is_not_cut_to_one(value):
    for name, ask in {
        "n": lambda: as_whole("n", value, least=1),
        "dim": lambda: Ball("l2", value, 1.0),
        "count": lambda: repeat(Gaussian(1.0), value),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} must be a whole number of at least 1, got "):
            ask()


def test_numbers_of_other_kinds_become_plain_ones():
    for value in (np.int8(3), np.uint64(3), np.array(3)):
        assert type(as_whole("n", value, least=1)) is int
        assert as_whole("n", value, least=1) == 3
    for number in (np.float32(0.5), np.float64(0.5), np.array(0.5), Decimal("0.5")):
        assert type(as_number("x", number)) is float
        assert as_number("x", number) == 0.5


@pytest.mark.parametrize("p", [0.6, 0.9, 0.99, 0.999])
def test_probabilities_and_noise_in_single_precision_are_computed_with_in_double(p):
    """In single precision the rounding to the safe side would be lost."""
    p, sigma = np.float32(p), np.float32(0.3)
    plain = unicr_radius_linf(float(sigma), 2.0, 3072, float(p), 1 - float(p))
    assert unicr_radius_linf(sigma, 2.0, 3072, p, 1 - float(p)) == plain
    assert sukenik_radius(sigma, np.float32(0.01), 3072, p) == sukenik_radius(
        float(sigma), float(np.float32(0.01)), 3072, float(p)
    )
    assert split_noise(sigma, first=np.float32(2)) == split_noise(float(sigma), first=2.0)
    assert type(Ball("l2", 3, sigma).radius) is float


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
