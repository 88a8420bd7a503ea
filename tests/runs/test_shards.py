"""Which images belong to which shard, what a folder's records share, and what is refused instead of mixed."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ars.runs.records import RecordError
from ars.runs.shards import (
    IncompleteError,
    Layout,
    Manifest,
    begin,
    merge,
    name_images,
    read_manifest,
    read_shard,
    shard_path,
    write_shard,
)

from .conftest import build_record


def record(index, **changes):
    return replace(build_record(index, 1, 1, 0.1), **changes)


def manifest(examples=5, every=1, shard_size=2, **settings):
    return Manifest(Layout(examples, every, shard_size), {"alpha": 0.05, **settings}, "abc")


def indices(records):
    return [one.certificate.index for one in records]


sizes = st.integers(1, 40)


@given(sizes, sizes, sizes, sizes)
def test_every_image_is_in_exactly_one_shard_and_stays_there_when_examples_are_added(examples, more, every, size):
    layout, longer = Layout(examples, every, size), Layout(examples + more, every, size)
    shards = [list(layout.images(number)) for number in range(layout.shards)]
    assert [index for shard in shards for index in shard] == list(range(0, examples * every, every))
    assert all(len(shard) == size for shard in shards[:-1])
    assert shards[-1]
    for empty in ((0, every, size), (examples, 0, size), (examples, every, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            Layout(*empty)
    for number, shard in enumerate(shards):
        assert set(shard) <= set(longer.images(number))


def test_a_manifest_comes_back_as_it_was_and_is_written_once(tmp_path):
    assert read_manifest(tmp_path / "none") is None
    assert begin(tmp_path / "a", manifest()) == manifest() == read_manifest(tmp_path / "a")
    before = (tmp_path / "a" / "settings.json").stat().st_mtime_ns
    assert begin(tmp_path / "a", manifest()) == manifest()
    assert (tmp_path / "a" / "settings.json").stat().st_mtime_ns == before


def test_examples_may_grow_and_never_shrink(tmp_path):
    begin(tmp_path, manifest(examples=5))
    assert begin(tmp_path, manifest(examples=9)).layout.examples == 9
    assert begin(tmp_path, manifest(examples=3)).layout.examples == 9
    assert read_manifest(tmp_path).layout.examples == 9


def test_of_processes_that_add_examples_the_largest_number_wins(tmp_path, monkeypatch):
    begin(tmp_path, manifest(examples=5))
    looked = []

    def slowly(folder):
        looked.append(folder)
        found = read_manifest(folder)
        if len(looked) == 2:  # before this one writes, another has
            begin(tmp_path, manifest(examples=40))
        return found

    monkeypatch.setattr("ars.runs.shards.read_manifest", slowly)
    assert begin(tmp_path, manifest(examples=20)).layout.examples == 40
    assert read_manifest(tmp_path).layout.examples == 40


SEEN = replace(manifest(), images=(12.0, 0.25, 0.5), files="abc")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(SEEN, settings={"alpha": 0.1}), r"alpha=0\.05, .*0\.1"),
        (replace(SEEN, settings={"alpha": 0.05, "mode": "curve"}), "mode=None, .*curve"),
        (replace(SEEN, settings={}), r"alpha=0\.05, .*None"),
        (replace(SEEN, layout=Layout(5, 3, 2)), "every=1, .*3"),
        (replace(SEEN, layout=Layout(5, 1, 4)), "shard_size=2, .*4"),
        (replace(SEEN, model="other"), "weights or noise"),
        (replace(SEEN, order="classes in turn"), "another order"),
        (replace(SEEN, files="abd"), "files"),
        (replace(SEEN, images=(13.0, 0.25, 0.5)), "12 test images, now there are 13"),
        (replace(SEEN, images=(12.0, 0.25, 0.6)), "some of the 12"),
        (replace(SEEN, images=(12.0, 0.25, 0.5, 0.1, 0.6)), None),  # an earlier version kept fewer numbers
        (replace(SEEN, images=(12.0, 0.2501, 0.4999)), None),  # another decoder
        (replace(SEEN, images=(), files=""), None),  # an earlier version kept neither
    ],
)
def test_records_of_other_settings_models_or_images_are_refused_and_nothing_changes(tmp_path, other, words):
    begin(tmp_path, SEEN)
    if words is None:
        assert begin(tmp_path, other) == SEEN
        return
    with pytest.raises(RecordError, match=f"{words}.* none yet"):  # another process may be making the first
        begin(tmp_path, other)
    write_shard(tmp_path, 0, [record(0)])
    with pytest.raises(RecordError, match=f"holds records .*{words}"):
        begin(tmp_path, other)
    assert read_manifest(tmp_path) == SEEN


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "null", '{"layout": 3}', '{"layout": {"examples": 0}}', "\xff",
        *(json.dumps({**json.loads(manifest().to_json()), name: value}) for name, value in (
            ("settings", None),
            ("images", [300, None]),
            ("layout", {"examples": math.nan, "every": 1, "shard_size": 2}),
            ("layout", {"examples": 5, "every": math.nan, "shard_size": 2}),
            ("layout", {"examples": 10**30, "every": 1, "shard_size": 2}),
        )),
    ],
)  # fmt: skip
def test_a_damaged_manifest_is_refused(tmp_path, content):
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(RecordError, match=r"settings\.json cannot be read"):
        read_manifest(tmp_path)


def test_records_without_their_manifest_or_packed_ones_are_not_added_to(tmp_path):
    write_shard(tmp_path, 0, [record(0)])
    with pytest.raises(RecordError, match=r"without settings\.json"):
        begin(tmp_path, manifest())
    (tmp_path / "records.jsonl.gz").write_bytes(b"")
    (tmp_path / "settings.json").write_text(manifest().to_json())
    with pytest.raises(RecordError, match="packed"):
        begin(tmp_path, manifest())


def test_a_file_in_the_place_of_a_folder_is_not_blamed_on_the_manifest(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(NotADirectoryError):
        read_manifest(tmp_path / "taken" / "x")


def test_a_merge_names_what_is_missing_and_how_to_continue(tmp_path):
    folder = tmp_path / "run" / "certify" / "test"
    with pytest.raises(IncompleteError, match=r"`ars certify .*run`"):
        merge(folder)
    begin(folder, manifest(examples=7))
    with pytest.raises(IncompleteError, match="no records"):
        merge(folder, partial=True)
    assert name_images(tuple(range(0, 20, 2)), 1) == "0, 2, 4, 6 and more"
    write_shard(folder, 1, [record(3), record(2)])
    write_shard(folder, 3, [record(6)])
    with pytest.raises(IncompleteError, match=r"3 of 7 images, .*0 to 1, 4 to 5"):
        merge(folder)
    some = merge(folder, partial=True)
    assert (indices(some.records), some.missing) == ([2, 3, 6], (0, 1, 4, 5))
    write_shard(folder, 0, [record(0), record(1)])
    write_shard(folder, 2, [record(4), record(5)])
    assert indices(merge(folder).records) == list(range(7))
    begin(folder, manifest(examples=8))  # the last shard is no longer whole
    assert merge(folder, partial=True).missing == (7,)


def test_a_shard_with_other_images_or_one_twice_or_that_is_none_of_the_layout_is_refused(tmp_path):
    begin(tmp_path, manifest(examples=4))
    assert read_shard(tmp_path, manifest(), 0) == []
    for wrong in ([record(2)], [record(0), record(0)]):
        write_shard(tmp_path, 0, wrong)
        with pytest.raises(RecordError, match=r"0 to 1"):
            read_shard(tmp_path, manifest(), 0)
    shard_path(tmp_path, 0).unlink()
    shard_path(tmp_path, 2).write_text(json.dumps({}))
    with pytest.raises(RecordError, match=r"shard-00002\.jsonl"):
        merge(tmp_path, partial=True)


def test_records_of_two_models_that_were_copied_together_are_refused(tmp_path):
    begin(tmp_path, manifest(examples=4))
    write_shard(tmp_path, 0, [record(0), record(1, model="abc")])  # an earlier version did not record the model
    assert indices(read_shard(tmp_path, manifest(), 0)) == [0, 1]
    write_shard(tmp_path, 1, [record(2, model="abc"), record(3, model="abd")])
    for read in (lambda: read_shard(tmp_path, manifest(examples=4), 1), lambda: merge(tmp_path)):
        with pytest.raises(RecordError, match=r"shard-00001\.jsonl .*weights"):
            read()


def test_of_models_that_begin_at_the_same_time_one_is_let_in(tmp_path):
    together = Barrier(8)

    def try_to_begin(folder, model):
        together.wait()
        try:
            return begin(folder, replace(manifest(), model=model)).model
        except RecordError:
            return None

    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            folder = tmp_path / str(number)
            answers = list(pool.map(try_to_begin, [folder] * 8, "abcdefgh"))
            assert [model for model in answers if model] == [read_manifest(folder).model]
            assert [path.name for path in folder.iterdir()] == ["settings.json"]
        assert set(pool.map(lambda _: begin(tmp_path, manifest()).model, range(8))) == {"abc"}  # of one model, all


def test_a_file_system_without_links_has_a_manifest_too(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert begin(tmp_path, manifest()) == manifest() == read_manifest(tmp_path)
    with pytest.raises(RecordError, match="weights"):
        begin(tmp_path, replace(manifest(), model="other"))
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.parametrize("layout", [{"shard_size": 2**63}, {"examples": 10**6, "every": 4000, "shard_size": 10**6}])
def test_a_manifest_with_huge_numbers_is_no_work(tmp_path, layout):
    content = json.loads(Manifest(Layout(2), {}, "model").to_json())
    (tmp_path / "settings.json").write_text(json.dumps({**content, "layout": {**content["layout"], **layout}}))
    write_shard(tmp_path, 0, [build_record(0, 1, 1, 0.1)])
    assert len(merge(tmp_path, partial=True).records) == 1
    write_shard(tmp_path, 0, [build_record(2**40 + 1, 1, 1, 0.1)])
    with pytest.raises(RecordError, match="image"):
        merge(tmp_path)
