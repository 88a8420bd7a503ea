from pathlib import Path

import pytest

from ars.certification.settings import CertifySettings
from ars.workflows.request import Request


@pytest.mark.parametrize(("at_most", "images", "examples"), [(True, 300, 100), (True, 40, 20), (False, 40, 100)])
def test_without_a_number_that_was_asked_for_the_default_or_all_images_are_certified(at_most, images, examples):
    request = Request(Path("run"), CertifySettings(examples=100, every=2), at_most=at_most)
    assert request.settings_for(images).examples == examples


def test_the_records_go_into_a_folder_of_the_run():
    assert Request(Path("run"), CertifySettings(), name="strict").records == Path("run/certify/strict")
    with pytest.raises(ValueError, match="plain folder name"):
        _ = Request(Path("run"), CertifySettings(), name="a/b").records
