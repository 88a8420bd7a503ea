import math

import pytest

from ars.certification.certificate import Certificate
from ars.certification.settings import Schedule


def certificate(**changes):
    fields = {
        "label": 1, "radius": 0.1, "norm": "linf", "dim": 12, "candidate": 1, "p_lower": 0.9, "p_upper": 0.1,
        "bound": "cohen", "radii": {"cohen": 0.1, "classes": 0.1}, "counts": (3, 97), "select_counts": (0, 10),
        "alpha": 0.05, "sigmas": (0.5,), "seed": 0, "index": 0, "precision": "float32",
        "schedule": Schedule("fixed", 100), "planned": 100, "ended": "planned",
    }  # fmt: skip
    return Certificate(**{**fields, **changes})


@pytest.mark.parametrize(
    ("label", "radius"),
    [(None, 0.1), (None, -0.1), (None, math.nan), (1, 0.0), (1, -0.1), (1, math.nan), (1, math.inf)],
)
def test_label_and_radius_never_contradict_each_other(label, radius):
    with pytest.raises(ValueError, match="abstention"):
        certificate(label=label, radius=radius)


@pytest.mark.parametrize("changes", [{"label": 0}, {"candidate": 0, "label": None, "radius": 0.0}, {"candidate": 0}])
def test_the_label_is_the_candidate_and_the_candidate_that_of_the_selection(changes):
    with pytest.raises(ValueError, match="candidate"):
        certificate(**changes)


LONGER = Schedule("fixed", 200)
CURVE = Schedule("curve", 1000, (0.0, 0.1, 0.2))


def test_votes_that_decided_when_to_stop_are_never_bounded_again():
    """Not even those of the last look: that an image came so far was decided by its votes."""
    for ended, planned in (("given up", 1000), ("certified", 1000), ("planned", 100)):
        decided = {"schedule": CURVE, "planned": planned, "ended": ended}
        assert certificate(**decided, radii={"cohen": 0.1}).stopped_by_data
        with pytest.raises(ValueError, match="bounded again"):
            certificate(**decided)
    given_up = {"schedule": Schedule("radius", 1000, tolerance=0.01), "planned": 500, "ended": "given up"}
    with pytest.raises(ValueError, match="bounded again"):
        certificate(**given_up)
    answer = certificate(**given_up, label=None, radius=0.0, radii={"cohen": 0.0, "classes": 0.0})
    assert answer.stopped_by_data
    assert not certificate(schedule=Schedule("radius", 1000, tolerance=0.01), planned=100).stopped_by_data


def test_a_grid_may_certify_a_label_at_radius_zero():
    answer = certificate(schedule=CURVE, planned=1000, ended="given up", label=1, radius=0.0, radii={"cohen": 0.0})
    assert (answer.label, answer.radius) == (1, 0.0)
    with pytest.raises(ValueError, match="abstention"):
        certificate(
            schedule=Schedule("curve", 1000, (0.1,)), planned=1000, ended="given up", label=1, radius=0.0,
            radii={"cohen": 0.0},
        )  # fmt: skip


@pytest.mark.parametrize(
    "changes", [{"planned": 99}, {"planned": 101}, {"counts": (3, 98)}, {"planned": 200, "schedule": LONGER}]
)
def test_the_number_of_votes_and_the_plan_never_contradict_each_other(changes):
    with pytest.raises(ValueError, match="planned"):
        certificate(**changes)
