import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ars.certification.certificate import Certificate
from ars.certification.records import Record, RecordError
from ars.certification.schedule import Schedule
from ars.certification.shards import (
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


def record(index):
    certificate = Certificate(
        label=1, radius=0.1, norm="linf", dim=12, candidate=1, p_lower=0.9, p_upper=0.1, bound="cohen",
        radii={"cohen": 0.1, "classes": 0.09}, counts=(3, 97), select_counts=(0, 10), alpha=0.05, sigmas=(0.5, 0.7),
        seed=0, index=index, precision="float32", schedule=Schedule("fixed", 100), planned=100, ended="planned",
    )  # fmt: skip
    return Record(certificate, truth=1, subset="test[::1]", seconds=0.25)


def manifest(examples=5, every=1, shard_size=2, **settings):
    return Manifest(Layout(examples, every, shard_size), {"alpha": 0.05, **settings}, "abc")


def indices(records):
    return [one.certificate.index for one in records]


sizes = st.integers(1, 40)


@given(sizes, sizes, sizes)
def test_every_image_is_in_exactly_one_shard(examples, every, size):
    layout = Layout(examples, every, size)
    shards = [list(layout.images(number)) for number in range(layout.shards)]
    assert [index for shard in shards for index in shard] == list(range(0, examples * every, every))
    assert all(len(shard) == size for shard in shards[:-1])
    assert shards[-1]


@given(sizes, sizes, sizes, sizes)
def test_more_examples_leave_every_full_shard_as_it_was(examples, more, every, size):
    layout, longer = Layout(examples, every, size), Layout(examples + more, every, size)
    for number in range(layout.shards):
        assert set(layout.images(number)) <= set(longer.images(number))


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_an_empty_layout_is_refused(wrong):
    with pytest.raises(ValueError, match="must be whole numbers of at least 1"):
        Layout(*wrong)


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


def test_of_processes_that_let_it_grow_the_largest_wins(tmp_path, monkeypatch):
    begin(tmp_path, manifest(examples=5))
    looked = []

    def slowly(folder):
        looked.append(folder)
        found = read_manifest(folder)
        if len(looked) == 2:  # before this one writes, another has
            begin(tmp_path, manifest(examples=40))
        return found

    monkeypatch.setattr("ars.certification.shards.read_manifest", slowly)
    assert begin(tmp_path, manifest(examples=20)).layout.examples == 40
    assert read_manifest(tmp_path).layout.examples == 40


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (manifest(alpha=0.1), "records with alpha=0.05, asked for is 0.1"),
        (manifest(mode="curve"), "records with mode=None, asked for is curve"),
        (manifest(every=3), "records with every=1, asked for is 3"),
        (manifest(shard_size=4), "records with shard_size=2, asked for is 4"),
        (replace(manifest(), model="other"), "records of a model with other weights or noise"),
    ],
)
def test_other_settings_are_refused_and_change_nothing(tmp_path, other, words):
    begin(tmp_path, manifest())
    with pytest.raises(RecordError, match=words):
        begin(tmp_path, other)
    assert read_manifest(tmp_path) == manifest()


@pytest.mark.parametrize(
    ("other", "which"),
    [
        (manifest(alpha=0.1), "with alpha=0.05, asked for is 0.1"),
        (replace(manifest(), model="other"), "of a model with other weights or noise"),
        (replace(manifest(), images=(13.0,)), "of other images: there were 12 test images, now there are 13"),
    ],
)
def test_what_was_begun_without_records_so_far_is_told_and_stays(tmp_path, other, which):
    """Another process may be at work on the first shard, so that it is not replaced."""
    begin(tmp_path, replace(manifest(), images=(12.0,)))
    with pytest.raises(
        RecordError, match=f"was begun for records {which}, and has none yet; remove that folder, unless"
    ):
        begin(tmp_path, other)
    write_shard(tmp_path, 0, [record(0)])
    with pytest.raises(
        RecordError, match=f"holds records {which}; certify under another --name, or remove that folder"
    ):
        begin(tmp_path, other)
    assert read_manifest(tmp_path) == replace(manifest(), images=(12.0,))


def test_a_setting_that_only_the_records_have_is_refused(tmp_path):
    begin(tmp_path, manifest(mode="curve"))
    with pytest.raises(RecordError, match="records with mode=curve, asked for is None"):
        begin(tmp_path, manifest())


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"layout": 3}', '{"layout": {"examples": 0}}', "\xff"])
def test_a_garbled_manifest_is_refused(tmp_path, content):
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(RecordError, match=r"settings\.json cannot be read"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settings", None),
        ("images", [300, None]),
        ("layout", {"examples": math.nan, "every": 1, "shard_size": 2}),
        ("layout", {"examples": 5, "every": math.nan, "shard_size": 2}),
        ("layout", {"examples": 10**30, "every": 1, "shard_size": 2}),
    ],
)
def test_a_manifest_with_a_wrong_value_is_refused_with_advice(tmp_path, name, value):
    begin(tmp_path, manifest())
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(
        RecordError, match=r"settings\.json cannot be read .*; put a copy of it in its place, or certify"
    ):
        read_manifest(tmp_path)


def test_shards_without_a_manifest_are_refused(tmp_path):
    write_shard(tmp_path, 0, [record(0)])
    with pytest.raises(RecordError, match=r"holds records without settings\.json"):
        begin(tmp_path, manifest())


def test_a_merge_names_what_is_missing_and_how_to_go_on(tmp_path):
    folder = tmp_path / "run" / "certify" / "test"
    with pytest.raises(IncompleteError, match=r"holds no records; run `ars certify .*run` first"):
        merge(folder)
    begin(folder, manifest(examples=7))
    with pytest.raises(IncompleteError, match="holds no records"):
        merge(folder, partial=True)
    write_shard(folder, 1, [record(3), record(2)])
    write_shard(folder, 3, [record(6)])
    with pytest.raises(IncompleteError, match=r"3 of 7 images, missing are 0 to 1, 4 to 5; run the same `ars certify`"):
        merge(folder)
    some = merge(folder, partial=True)
    assert (indices(some.records), some.missing) == ([2, 3, 6], (0, 1, 4, 5))
    write_shard(folder, 0, [record(0), record(1)])
    write_shard(folder, 2, [record(4), record(5)])
    assert indices(merge(folder).records) == list(range(7))


def test_a_partial_last_shard_is_incomplete_once_examples_grew(tmp_path):
    begin(tmp_path, manifest(examples=3))
    write_shard(tmp_path, 0, [record(0), record(1)])
    write_shard(tmp_path, 1, [record(2)])
    assert merge(tmp_path).missing == ()
    begin(tmp_path, manifest(examples=5))
    assert merge(tmp_path, partial=True).missing == (3, 4)


def test_a_shard_with_other_images_or_one_twice_is_refused(tmp_path):
    assert read_shard(tmp_path, manifest(), 0) == []
    for wrong in ([record(2)], [record(0), record(0)]):
        write_shard(tmp_path, 0, wrong)
        with pytest.raises(RecordError, match=r"expected each of \[0, 1\] once"):
            read_shard(tmp_path, manifest(), 0)


def test_a_file_that_is_no_shard_of_the_layout_is_refused(tmp_path):
    begin(tmp_path, manifest(examples=4))
    write_shard(tmp_path, 0, [record(0), record(1)])
    shard_path(tmp_path, 2).write_text(json.dumps({}))
    with pytest.raises(RecordError, match=r"shard-00002\.jsonl is no shard of 4 examples"):
        merge(tmp_path, partial=True)


def test_many_stretches_are_not_all_named():
    assert name_images(tuple(range(0, 20, 2)), 1) == "0, 2, 4, 6 and more"


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
            assert [it for it in answers if it] == [read_manifest(folder).model]
            assert [path.name for path in folder.iterdir()] == ["settings.json"]


def test_processes_of_one_model_that_begin_at_the_same_time_are_all_let_in(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: begin(tmp_path, manifest()).model, range(8))) == {"abc"}


def test_a_file_system_without_links_has_a_manifest_too(tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert begin(tmp_path, manifest()) == manifest() == read_manifest(tmp_path)
    with pytest.raises(RecordError, match="other weights"):
        begin(tmp_path, replace(manifest(), model="other"))
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ((13.0, 0.25, 0.5), "there were 12 test images, now there are 13"),
        ((12.0, 0.25, 0.6), "of 12 some have changed"),
        ((12.0, 0.25, 0.5, 0.1, 0.6), "of 12 some have changed"),
    ],
)
def test_records_of_other_images_are_refused(tmp_path, images, sentence):
    begin(tmp_path, replace(manifest(), images=(12.0, 0.25, 0.5)))  # by an earlier version, which kept less
    seen = (12.0, 0.2501, 0.4999, 0.1, 0.2)  # decoded by another version
    begin(tmp_path, replace(manifest(examples=7), images=seen))
    write_shard(tmp_path, 0, [record(0)])
    with pytest.raises(RecordError, match=f"holds records of other images: {sentence}; certify under another --name"):
        begin(tmp_path, replace(manifest(), images=images))


def test_records_of_a_version_that_did_not_look_at_the_images_go_on(tmp_path):
    old = json.loads(manifest().to_json())
    del old["images"]
    (tmp_path / "settings.json").write_text(json.dumps(old))
    assert begin(tmp_path, replace(manifest(), images=(12.0, 0.25))) == manifest()


def test_packed_records_are_not_written_beside(tmp_path):
    (tmp_path / "records.jsonl.gz").write_bytes(b"")
    (tmp_path / "settings.json").write_text(manifest().to_json())
    with pytest.raises(RecordError, match="holds packed records, which are complete; certify under another --name"):
        begin(tmp_path, manifest())


def test_files_of_the_same_names_that_have_changed_are_refused(tmp_path):
    begin(tmp_path, replace(manifest(), files="abc"))
    begin(tmp_path, replace(manifest(), files="abc"))
    write_shard(tmp_path, 0, [record(0)])
    with pytest.raises(RecordError, match="other images: files of the same names have changed; certify under another"):
        begin(tmp_path, replace(manifest(examples=7), files="abd"))


def test_records_of_two_models_that_were_copied_together_are_refused(tmp_path):
    begin(tmp_path, manifest(examples=4))
    write_shard(tmp_path, 0, [record(0), replace(record(1), model="abc")])  # an earlier version did not say whose
    assert indices(read_shard(tmp_path, manifest(), 0)) == [0, 1]
    write_shard(tmp_path, 1, [replace(record(2), model="abc"), replace(record(3), model="abd")])
    for read in (lambda: read_shard(tmp_path, manifest(examples=4), 1), lambda: merge(tmp_path)):
        with pytest.raises(RecordError, match=r"shard-00001\.jsonl holds records of a model with other weights"):
            read()
