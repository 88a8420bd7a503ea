import math
from dataclasses import replace

import pytest

from ars.certification.settings import CertifySettings, Schedule

CURVE = {"mode": "curve", "radii": (0.1, 0.2)}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"examples": 0}, "examples"),
        ({"every": 0}, "every"),
        ({"n_select": 0}, "n_select"),
        ({"n_select": True}, "n_select"),
        ({"n_estimate": 0}, "n_estimate"),
        ({"n_estimate": 4}, "draws"),
        ({"n_estimate": 10**21}, "n_estimate"),
        ({"n_estimate": 1000.5}, "n_estimate"),
        ({"n_select": 2**31 * 100 + 1}, "n_select"),
        ({"alpha": "0.1"}, "alpha"),
        ({"alpha": 0.95}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"bound": "wilson"}, "bound"),
        ({"mode": "sequential"}, "mode"),
        ({"mode": "curve"}, "radii"),
        ({"mode": "curve", "radii": ["0.1"]}, "radii"),
        ({"mode": "curve", "radii": 0.1}, "radii"),
        ({"mode": "curve", "radii": "12"}, "radii"),
        ({"mode": "radius", "tolerance": "0.1"}, "tolerance"),
        ({**CURVE, "bound": "classes"}, "bound"),
        ({**CURVE, "tolerance": 0.1}, "tolerance"),
        ({"mode": "radius", "tolerance": 1.0}, "tolerance"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_what_can_be_refused_without_a_model_is_refused_at_once(changes, named):
    with pytest.raises(ValueError, match=named):
        replace(CertifySettings(), **changes)


def test_the_schedule_is_that_of_the_mode():
    schedule = CertifySettings(**CURVE, n_estimate=5000).schedule
    assert (schedule.mode, schedule.n_max, schedule.radii, schedule.tolerance) == ("curve", 5000, (0.1, 0.2), None)
    assert str(schedule) == "up to 5,000, until decided at 0.1, 0.2"
    assert CertifySettings(mode="radius").schedule.tolerance == 0.01
    assert CertifySettings(mode="radius", tolerance=0.2).schedule.tolerance == 0.2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("fixed", 100, (0.1,)), "radii"),
        (("curve", 100, (0.2, 0.1)), "increase"),
        (("curve", 100, (-0.1, 0.1)), "at least 0"),
        (("curve", 100, (0.1, math.nan)), "increase"),
        (("radius", 100, (), 0.0), "tolerance"),
        (("radius", 100, (), math.nan), "tolerance"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(arguments, named):
    with pytest.raises(ValueError, match=named):
        Schedule(*arguments)
