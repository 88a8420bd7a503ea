import math

import pytest

from ars.certification.certificate import Certificate
from ars.certification.schedule import Schedule


def certificate(**changes):
    fields = {
        "label": 1, "radius": 0.1, "norm": "linf", "dim": 12, "candidate": 1, "p_lower": 0.9, "p_upper": 0.1,
        "bound": "cohen", "radii": {"cohen": 0.1, "classes": 0.1}, "counts": (3, 97), "select_counts": (0, 10),
        "alpha": 0.05, "sigmas": (0.5,), "seed": 0, "index": 0, "precision": "float32",
        "schedule": Schedule("fixed", 100), "planned": 100, "ended": "planned",
    }  # fmt: skip
    return Certificate(**{**fields, **changes})


def test_n_estimate_is_the_number_of_votes():
    assert certificate().n_estimate == 100


def test_an_abstention_is_a_certificate_with_radius_zero():
    assert certificate(label=None, radius=0.0).label is None


@pytest.mark.parametrize(
    ("label", "radius"),
    [(None, 0.1), (None, -0.1), (None, math.nan), (1, 0.0), (1, -0.1), (1, math.nan), (1, math.inf)],
)
def test_label_and_radius_never_contradict_each_other(label, radius):
    with pytest.raises(ValueError, match="an abstention has radius 0 and a label a positive one"):
        certificate(label=label, radius=radius)


def test_a_certificate_cannot_be_changed():
    with pytest.raises(AttributeError):
        certificate().radius = 1.0
