"""Records that state more, or less, than their votes allow are refused."""

from dataclasses import replace

import pytest

from ars.certification.settings import Schedule
from ars.runs.radius_check import check_radii
from ars.runs.records import ReportError
from ars.theory import sukenik_radius, unicr_radius_linf

from .conftest import DRAWS, SHAPE, build_decided, build_record, two_looks


def check(record, method="cohen", **recipe):
    check_radii("run", {"method": method, "sigma": 0.5, **recipe}, SHAPE, [record])


def forged(record, **changes):
    made = record.certificate
    if "radius" in changes:
        changes.setdefault("radii", {**made.radii, made.bound: changes["radius"]})
    return replace(record, certificate=replace(made, **changes))


def with_radius(record, radius):
    return forged(record, radius=radius, radii=dict.fromkeys(record.certificate.radii, radius))


TRUE = build_record(0, 1, 1, 4 / 255)
RADIUS = TRUE.certificate.radius
FEW = {"counts": (10, 80, 10), "schedule": Schedule("fixed", 100), "planned": 100}


def test_records_as_they_are_made_pass():
    for record, method in ((TRUE, "cohen"), (TRUE, "static_mask"), (two_looks(TRUE), "adaptive"), (TRUE, "my:own")):
        check(record, method)
    check(build_record(0, 1, 1, 0.0))
    check(build_record(0, 1, 1, 0.3, norm="l2"))
    check(build_record(0, 1, 1, 0.0, classes_radius=1 / 255, bound="classes"))
    check(two_looks(build_record(0, 1, 1, 4 / 255, exact=True)), "adaptive")
    for certified in range(4):
        check(build_decided(0, 1, 1, certified))


@pytest.mark.parametrize(
    "changes",
    [
        {"radius": 190 / 255}, {"radius": RADIUS * 1.00001}, {"radius": RADIUS * 0.99999},
        {"radii": {"cohen": RADIUS, "classes": 190 / 255}}, {"p_lower": 0.99}, {"p_upper": 0.01}, FEW,
        {"alpha": 0.2}, {"alpha": 0.9}, {"alpha": float("nan")}, {"sigmas": (0.6,)}, {"sigmas": ()},
        {"sigmas": (float("inf"),)}, {"dim": 27}, {"exact": True}, {"candidate": 1, "label": None, "radius": 0.0},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_that_contradicts_its_votes_is_refused(changes):
    with pytest.raises(ReportError, match="image 0 of run"):
        check(forged(TRUE, **changes))


@pytest.mark.parametrize(
    "changes", [{"radius": RADIUS * 1.00001}, {"exact": False}, {"radius": 0.0, "label": None}], ids=str
)
def test_exact_radii_are_those_of_exact_mode(changes):
    record = build_record(0, 1, 1, 4 / 255, exact=True)
    check(record)
    with pytest.raises(ReportError, match="radius"):
        check(forged(record, **changes))


def test_masked_methods_have_no_l2_certificates():
    with pytest.raises(ReportError, match="static_mask has no certificates for l2"):
        check(build_record(0, 1, 1, 0.3, norm="l2"), "static_mask")


def test_radii_of_rivals_are_those_of_their_theory():
    made, dim = TRUE.certificate, TRUE.certificate.dim
    radius = unicr_radius_linf(0.5, 2.25, dim, made.p_lower, made.p_upper)
    record = forged(TRUE, radius=radius, radii={"cohen": radius})
    check(record, "unicr")  # 2.25 is the paper's
    for wrong in ({"beta": 2.0}, {"beta": 3.0}):
        with pytest.raises(ReportError, match="radius"):
            check(record, "unicr", **wrong)
    radius = sukenik_radius(0.52, 0.01, dim, made.p_lower, norm="linf")
    local = forged(TRUE, sigmas=(0.52,), radius=radius, radii={"cohen": radius})
    check(local, "sukenik")
    with pytest.raises(ReportError, match="radius"):
        check(with_radius(local, radius * 1.2), "sukenik")
    with pytest.raises(ReportError, match="noise"):
        check(forged(local, sigmas=(0.7,)), "sukenik")


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": (8900, 9, 91)}, {"radius": 4 / 255}, {"p_lower": 0.9999, "p_upper": 1 - 0.9999}, {"p_upper": 0.1},
        {"p_lower": 1.0, "p_upper": 0.0}, {"ended": "certified", "counts": (5000, 4000, 0)},
    ],
    ids=str,
)  # fmt: skip
def test_a_decided_radius_needs_its_probability_and_the_votes_for_it(changes):
    record = build_decided(0, 1, 1, 2)
    with pytest.raises(ReportError, match="image 0 of run"):
        check(forged(record, **changes))


def test_an_image_that_was_given_up_has_no_probability():
    few = {"schedule": Schedule("radius", DRAWS, tolerance=0.01), "planned": DRAWS, "counts": (60, 40, 0)}
    record = build_record(0, 1, 1, 0.0, **few, ended="given up", p_lower=0.0, p_upper=1.0)
    check(record)
    with pytest.raises(ReportError, match="probabilities"):
        check(forged(record, p_lower=0.9, p_upper=0.1))


def test_a_method_of_ones_own_has_larger_radii_for_larger_probabilities():
    """Its radius cannot be computed without its code."""
    near, far = build_record(0, 1, 1, 2 / 255), build_record(1, 1, 1, 4 / 255)
    run = ("run", {"method": "my:own", "sigma": 0.5}, SHAPE)
    check_radii(*run, [near, with_radius(far, 1.0)])
    with pytest.raises(ReportError, match="image 1 of run has a smaller radius"):
        check_radii(*run, [near, with_radius(far, 1 / 255)])
