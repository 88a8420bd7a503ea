import dataclasses
from pathlib import Path

import pytest

from ars.certification.settings import CertifySettings, Schedule
from ars.workflows.request import Progress, Request

from ..runs.conftest import build_record


@pytest.mark.parametrize(("at_most", "images", "examples"), [(True, 300, 100), (True, 40, 20), (False, 40, 100)])
def test_without_a_number_that_was_asked_for_the_default_or_all_images_are_certified(at_most, images, examples):
    request = Request(Path("run"), CertifySettings(examples=100, every=2), at_most=at_most)
    assert request.settings_for(images).examples == examples


def test_the_records_go_into_a_folder_of_the_run():
    assert Request(Path("run"), CertifySettings(), name="strict").records == Path("run/certify/strict")
    with pytest.raises(ValueError, match="plain folder name"):
        _ = Request(Path("run"), CertifySettings(), name="a/b").records


def test_counts_are_of_all_sessions_and_the_pace_is_of_this_one():
    few = {"counts": (1, 98, 1), "schedule": Schedule("fixed", 100), "planned": 100}  # and 100 draws select
    right, wrong, abstained = (
        build_record(index, truth, label, radius, **few) for index, truth, label, radius in
        [(0, 1, 1, 0.1), (1, 0, 2, 0.05), (2, 1, 1, 0.0)]
    )  # fmt: skip
    average = right.certificate.radius / 2
    at = Progress(total=10)
    assert (at.seconds_left, at.draws_a_second, at.certified, at.average_radius) == (None, 0, 0, 0)
    at = at.found([right, wrong])
    assert (at.done, at.fresh, at.draws, at.certified, at.average_radius) == (2, 0, 0, 0.5, average)
    at = dataclasses.replace(at, drawn=50, at_most=200).made([right, abstained], seconds=4.0)
    assert (at.done, at.fresh, at.draws, at.drawn, at.at_most) == (4, 2, 400, 0, 0)
    assert at.certified == 0.5
    assert at.average_radius == pytest.approx(average)
    assert (at.draws_a_second, at.seconds_left) == (100, 12)
