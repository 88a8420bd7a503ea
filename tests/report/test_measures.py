import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ars.certification.settings import Schedule
from ars.report.measures import (
    Spread,
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    in_units,
    outcomes,
    round_radii,
    rounded,
    show_grid_radius,
    show_radius,
    standard_accuracy,
)
from ars.runs.run import ReportError


def test_measures_by_hand(make_records):
    answers = outcomes(make_records(), "cohen")
    assert standard_accuracy(answers) == 2 / 4
    assert [certified_accuracy(answers, r / 255) for r in (2, 3, 5)] == [2 / 4, 1 / 4, 0]
    assert average_certified_radius(answers) == pytest.approx((4.5 + 2.5) / 4 / 255)
    assert abstention_rate(answers) == 1 / 4


def test_the_other_bound_turns_an_abstention_into_an_answer(make_records):
    answers = outcomes(make_records(), "classes")
    assert standard_accuracy(answers) == 3 / 4
    assert average_certified_radius(answers) == pytest.approx((4.5 + 2.5 + 1.5) / 4 / 255)
    assert abstention_rate(answers) == 0


def test_a_radius_of_a_grid_is_shown_as_it_was_written_and_no_other_is_rounded_up():
    for thousandths in range(0, 20_000, 37):
        radius = float(Fraction(thousandths, 255_000))
        assert show_grid_radius(radius, "linf", decimals=3) == f"{thousandths / 1000:.3f}"
        for other in (math.nextafter(radius, 0), math.nextafter(radius, 1)):
            assert Fraction(show_grid_radius(other, "linf", decimals=3)) <= Fraction(other) * 255


def test_certified_accuracy_counts_a_radius_that_is_just_met(make_record):
    answers = outcomes([make_record(0, 1, 1, 0.25)], "cohen")
    assert certified_accuracy(answers, 0.25) == 1
    assert certified_accuracy(answers, math.nextafter(0.25, 1)) == 0


def test_an_abstention_on_the_true_class_is_wrong_at_radius_zero(make_record):
    assert standard_accuracy(outcomes([make_record(0, 1, 1, 0.0)], "cohen")) == 0


def test_no_records_have_no_measure():
    with pytest.raises(ReportError, match="at least one record"):
        outcomes([], "cohen")


def test_spread_is_the_sample_standard_deviation():
    assert (Spread((0.5, 0.7)).mean, Spread((0.5, 0.7)).std) == pytest.approx((0.6, 0.2 / math.sqrt(2)))
    assert Spread((0.5,)).std is None


@pytest.mark.parametrize(("seeds", "shown"), [((0.6, 0.615), "60.8"), ((0.625, 0.6), "61.2"), ((0.7135,), "71.4")])
def test_what_lies_between_two_decimals_is_rounded_to_the_even_one(seeds, shown):
    assert rounded(100 * Spread(seeds).mean) == shown
    assert (rounded(60.74999), rounded(60.75001), rounded(0.045, 2)) == ("60.7", "60.8", "0.04")


@given(st.floats(1e-6, 4))
@example(0.62)  # 158.1 would be above
def test_shown_radii_are_never_above_the_exact_ones(radius):
    exact = Fraction(radius) * 255
    assert Fraction(in_units(radius, "linf")) <= exact
    shown = Fraction(show_radius(radius, "linf"))
    assert shown <= exact < shown + Fraction(1, 50)


def test_a_radius_just_below_a_round_one_is_cut():
    assert show_radius(math.nextafter(0.5, 0), "l2") == "0.49"
    assert show_radius(1.999 / 255, "linf") == "1.99"


@given(st.floats(1e-3, 1e3))
def test_round_radii_cover_the_range(largest):
    *_, last = round_radii(largest)
    assert last <= largest < 2 * last


def test_without_radii_there_are_no_columns():
    assert round_radii(0.0) == ()


def test_a_grid_is_measured_at_its_radii_only(make_decided):
    """Right at 4/255, right at radius 0 only, wrong at 4/255, not certified at all."""
    records = [make_decided(0, 1, 1, 3), make_decided(1, 1, 1, 1), make_decided(2, 0, 1, 3), make_decided(3, 1, 1, 0)]
    answers = outcomes(records, "cohen")
    assert standard_accuracy(answers) == 2 / 4
    assert abstention_rate(answers) == 1 / 4
    assert [certified_accuracy(answers, radius / 255) for radius in (2, 4)] == [1 / 4, 1 / 4]
    # 255 (4 / 255) / 255 is 4 / 255 up to rounding
    assert certified_accuracy(answers, math.nextafter(4 / 255, 1)) == 1 / 4
    assert certified_accuracy(answers, 4 / 255 * (1 - 1e-10)) == 1 / 4
    with pytest.raises(ReportError, match="was not decided"):  # what was decided is less
        certified_accuracy(answers, 4 / 255 * (1 + 1e-10))
    for less in (1e-8, 1e-3):  # what was decided is more than rounding
        with pytest.raises(ReportError, match="was not decided"):
            certified_accuracy(answers, 4 / 255 * (1 - less))
    with pytest.raises(ReportError, match="was not decided"):
        certified_accuracy(answers, 3 / 255)
    with pytest.raises(ReportError, match="no average radius"):
        average_certified_radius(answers)


def test_without_radius_zero_in_the_grid_there_is_no_standard_accuracy(make_decided):
    answers = outcomes([make_decided(0, 1, 1, 1, grid=(2 / 255, 4 / 255))], "cohen")
    with pytest.raises(ReportError, match="radius 0 was not decided"):
        standard_accuracy(answers)
    with pytest.raises(ReportError, match="abstentions were not decided"):
        abstention_rate(answers)


def test_stopped_votes_are_never_bounded_again(make_decided):
    with pytest.raises(ReportError, match="never bounded again"):
        outcomes([make_decided(0, 1, 1, 3)], "classes")


def test_an_image_that_was_given_up_has_radius_zero(make_record):
    schedule = Schedule("radius", 500, tolerance=0.01)
    given_up = make_record(0, 1, 1, 0.0, schedule=schedule, planned=300, ended="given up")
    answers = outcomes([given_up, make_record(1, 1, 1, 0.5, schedule=schedule)], "cohen")
    assert average_certified_radius(answers) == 0.25
    assert abstention_rate(answers) == 0.5
