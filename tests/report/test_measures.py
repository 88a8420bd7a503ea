import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ars.certification.settings import Schedule
from ars.report.measures import Spread, in_units, outcomes, round_radii, rounded, show_grid_radius, show_radius
from ars.runs.records import ReportError


@pytest.mark.parametrize(
    ("bound", "standard", "radii", "abstained"),
    [("cohen", 2 / 4, 4.5 + 2.5, 1 / 4), ("classes", 3 / 4, 4.5 + 2.5 + 1.5, 0)],  # an abstention becomes an answer
)
def test_measures_by_hand(make_records, bound, standard, radii, abstained):
    answers = outcomes(make_records(), bound)
    assert answers.certified_accuracy(0.0) == standard
    assert [answers.certified_accuracy(r / 255) for r in (2, 3, 5)] == [2 / 4, 1 / 4, 0]
    assert answers.average_radius == pytest.approx(radii / 4 / 255)
    assert answers.abstention_rate == abstained


def test_a_radius_of_a_grid_is_shown_as_it_was_written_and_no_other_is_rounded_up():
    for thousandths in range(0, 20_000, 37):
        radius = float(Fraction(thousandths, 255_000))
        assert show_grid_radius(radius, "linf", decimals=3) == f"{thousandths / 1000:.3f}"
        for other in (math.nextafter(radius, 0), math.nextafter(radius, 1)):
            assert Fraction(show_grid_radius(other, "linf", decimals=3)) <= Fraction(other) * 255


def test_certified_accuracy_counts_a_radius_that_is_just_met(make_record):
    record = make_record(0, 1, 1, 0.1)
    answers, radius = outcomes([record], "cohen"), record.certificate.radius
    assert answers.certified_accuracy(radius) == 1
    assert answers.certified_accuracy(math.nextafter(radius, 1)) == 0


def test_an_abstention_on_the_true_class_is_wrong_at_radius_zero(make_record):
    assert outcomes([make_record(0, 1, 1, 0.0)], "cohen").certified_accuracy(0.0) == 0


def test_spread_is_the_sample_standard_deviation():
    assert (Spread((0.5, 0.7)).mean, Spread((0.5, 0.7)).std) == pytest.approx((0.6, 0.2 / math.sqrt(2)))
    assert Spread((0.5,)).std is None
    assert Spread.of([0.5, None]) == Spread(())  # no mean over fewer seeds than are said


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
    assert answers.certified_accuracy(0.0) == 2 / 4
    assert answers.abstention_rate == 1 / 4
    assert answers.average_radius is None
    # 255 (4 / 255) / 255 is 4 / 255 up to rounding
    for radius in (2 / 255, 4 / 255, math.nextafter(4 / 255, 1), 4 / 255 * (1 - 1e-10)):
        assert answers.certified_accuracy(radius) == 1 / 4
    # what was decided is less, or more than rounding
    for radius in (4 / 255 * (1 + 1e-10), 4 / 255 * (1 - 1e-8), 4 / 255 * (1 - 1e-3), 3 / 255):
        assert answers.certified_accuracy(radius) is None


def test_without_radius_zero_in_the_grid_there_is_no_standard_accuracy(make_decided):
    answers = outcomes([make_decided(0, 1, 1, 1, grid=(2 / 255, 4 / 255))], "cohen")
    assert answers.certified_accuracy(0.0) is answers.abstention_rate is None


def test_stopped_votes_are_never_bounded_again(make_decided):
    with pytest.raises(ReportError, match="never bounded again"):
        outcomes([make_decided(0, 1, 1, 3)], "classes")


def test_an_image_that_was_given_up_has_radius_zero(make_record):
    schedule = Schedule("radius", 500, tolerance=0.01)
    given_up = make_record(0, 1, 1, 0.0, schedule=schedule, counts=(0, 50, 50), planned=300, ended="given up")
    kept = make_record(1, 1, 1, 0.1, schedule=schedule, counts=(1, 498, 1), planned=500)
    answers = outcomes([given_up, kept], "cohen")
    assert (answers.average_radius, answers.abstention_rate) == (kept.certificate.radius / 2, 0.5)
