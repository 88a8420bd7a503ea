import gzip

import pytest

from ars.report.errors import ReportError
from ars.report.results import load_runs


@pytest.fixture
def pack(make_run, make_records):
    def make(text=None, examples=None):
        path = make_run("a", examples=examples)
        folder = path / "certify" / "test"
        shard = folder / "shard-00000.jsonl"
        content = shard.read_text() if text is None else text
        shard.unlink()
        (folder / "records.jsonl.gz").write_bytes(gzip.compress(content.encode()))
        return path

    return make


def test_packed_records_are_those_of_the_shards(make_run, pack):
    packed, shards = load_runs([pack()])[0], load_runs([make_run("b")])[0]
    assert packed.records == shards.records


def test_images_that_are_missing_are_counted_or_refused(pack):
    path = pack(examples=6)
    assert load_runs([path], partial=True)[0].missing == 2
    with pytest.raises(ReportError, match=r"4 of 6 images; .* --partial"):
        load_runs([path])


def test_an_image_twice_or_none_is_refused(pack, make_record):
    line = make_record(0, 0, 0, 0.1).to_json() + "\n"
    for text, words in ((2 * line, "once each, got"), ("", r"records\.jsonl\.gz holds no records; pack them again")):
        path = pack(text, examples=2)
        with pytest.raises(ReportError, match=words):
            load_runs([path], partial=True)
        (path / "certify/test/records.jsonl.gz").rename(path / "moved")
        path.rename(path.with_name(f"done-{len(text)}"))


def test_damage_is_one_sentence(pack):
    path = pack()
    file = path / "certify/test/records.jsonl.gz"
    for content in (b"no gzip", file.read_bytes()[:-9], gzip.compress(b"{}\n")):
        file.write_bytes(content)
        with pytest.raises(ReportError, match=r"records\.jsonl\.gz does not hold"):
            load_runs([path])
    (path / "certify/test/settings.json").unlink()
    with pytest.raises(ReportError, match=r"without its settings\.json"):
        load_runs([path])
