import dataclasses
import json

import pytest

from ars.certification.settings import CertifySettings
from ars.runs.provenance import begun_settings, make_manifest
from ars.runs.records import RecordError
from ars.runs.shards import SHARD_SIZE, begin

SETTINGS = CertifySettings(
    examples=7, every=3, norm="l2", n_select=20, n_estimate=400, alpha=0.01, mode="curve", radii=(0.1, 0.2), seed=5,
    precision="bfloat16",
)  # fmt: skip


def manifest(settings=SETTINGS, shard_size=None, begun=None):
    return make_manifest(
        settings, model="abc", images=(), files="", weights="", order="", shard_size=shard_size, begun=begun
    )


@pytest.fixture
def folder(tmp_path):
    """The records folder of a certification that was begun with the settings."""
    begin(tmp_path / "certify" / "test", manifest())
    return tmp_path / "certify" / "test"


def test_settings_come_back_from_the_manifest_as_they_were(folder, tmp_path):
    assert begun_settings(tmp_path, "test") == SETTINGS
    assert begun_settings(tmp_path, "other") is None


def test_a_manifest_has_every_setting():
    own = {field.name for field in dataclasses.fields(CertifySettings)} - {"examples", "every"}
    assert manifest().settings.keys() == own - {"exact"}, "older manifests do not have it"
    layout = manifest().layout
    assert (layout.examples, layout.every, layout.shard_size) == (7, 3, SHARD_SIZE)


def test_a_certification_that_was_begun_in_exact_mode_continues_in_it(tmp_path):
    begin(tmp_path / "certify" / "test", manifest(settings=dataclasses.replace(SETTINGS, exact=True)))
    found = begun_settings(tmp_path, "test")
    assert found is not None
    assert found.exact


def test_without_a_shard_size_that_of_the_records_is_kept():
    begun = manifest(shard_size=4)
    assert manifest(begun=begun).layout.shard_size == 4
    assert manifest(begun=begun, shard_size=5).layout.shard_size == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": "x"}, "cannot be read"),
        ({"n_select": None}, "cannot be read"),
        ({"radii": None}, "cannot be read"),
        ({"mode": "often"}, "cannot be read"),
        ({"later": 1}, "another version: later"),
    ],
)
def test_settings_with_a_wrong_value_or_of_another_version_are_refused(folder, tmp_path, changes, words):
    path = folder / "settings.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "settings": {**content["settings"], **changes}}))
    with pytest.raises(RecordError, match=rf"settings\.json .*{words}"):
        begun_settings(tmp_path, "test")
