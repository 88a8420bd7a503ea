import json
import math
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ars.certification.bounds import BOUNDS
from ars.certification.certificate import Certificate
from ars.certification.settings import MOST_DRAWS, Schedule
from ars.runs.records import Record, RecordError, read_records

from .conftest import build_decided, build_record

unit = st.floats(min_value=0, max_value=1)
radii = st.floats(min_value=5e-324, max_value=1e300)
naturals = st.integers(0, 2**63)


def schedules(n):
    return st.just(Schedule("fixed", n)) | st.builds(
        Schedule, st.just("radius"), st.integers(n, 2 * n), tolerance=st.floats(min_value=1e-9, max_value=0.99)
    )


@st.composite
def records(draw):
    counts = st.lists(st.integers(0, MOST_DRAWS // 24), min_size=1, max_size=12).map(tuple)
    votes, selection = draw(counts.filter(any)), draw(counts)
    candidate = selection.index(max(selection))
    label = draw(st.sampled_from([None, candidate]))
    certificate = Certificate(
        label=label,
        radius=0.0 if label is None else draw(radii),
        norm=draw(st.sampled_from(["l2", "linf"])),
        dim=draw(st.integers(1, 10**6)),
        candidate=candidate,
        p_lower=draw(unit),
        p_upper=draw(unit),
        bound=draw(st.sampled_from(BOUNDS)),
        radii={bound: draw(radii) for bound in BOUNDS},
        counts=votes,
        select_counts=selection,
        alpha=draw(unit),
        sigmas=draw(st.lists(radii, min_size=1, max_size=4).map(tuple)),
        seed=draw(naturals),
        index=draw(naturals),
        precision=draw(st.sampled_from(["float32", "bfloat16"])),
        schedule=draw(schedules(sum(votes))),
        planned=sum(votes),
        ended="planned",
    )
    return Record(
        certificate, truth=draw(st.integers(0, 1000)), subset=draw(st.text('aZ9 \n"\\é½σ😀')), seconds=draw(unit)
    )


ONE = build_record(0, 1, 1, 0.1, subset="test: k=32, \u03c3=\u00bd")
CONTENT = json.loads(ONE.to_json())


@given(records())
@example(build_decided(0, 1, 1, 2))
@example(replace(ONE, model="abc"))
@example(build_record(0, 1, 1, math.nextafter(0.1, 1)))  # a float is written in full
def test_a_record_comes_back_as_it_was_from_one_line_of_plain_json(original):
    line = original.to_json()
    assert Record.from_json(line) == original
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["index"] == original.certificate.index


@settings(max_examples=30)
@given(st.lists(records(), max_size=5))
def test_a_file_of_records_comes_back_and_reading_never_changes_it(tmp_path_factory, originals):
    path = tmp_path_factory.mktemp("records") / "run.jsonl"
    path.write_text("".join(original.to_json() + "\n" for original in originals) + '{"cut')
    before = path.read_bytes()
    assert read_records(path) == originals
    assert path.read_bytes() == before


def test_a_file_cut_anywhere_in_its_last_line_keeps_all_whole_lines(tmp_path):
    path = tmp_path / "run.jsonl"
    content = "".join(build_record(index, 1, 1, 0.1).to_json() + "\n" for index in range(3)).encode()
    start = content[:-1].rfind(b"\n") + 1
    for cut in range(start, len(content)):
        path.write_bytes(content[:cut])
        assert [record.certificate.index for record in read_records(path)] == [0, 1]
    path.write_bytes(content)
    assert len(read_records(path)) == 3


@pytest.mark.parametrize(
    "garbage",
    [
        "not json", "", "{}", 100_000 * "[", "[]", "3", "null", '"text"', "true", "NaN", '{"truth": 1}', "\x00\x00\x00",
        *(json.dumps({**CONTENT, **changes}) for changes in (
            {"new_field": 1}, {"counts": 5}, {"schedule": {"mode": "fixed"}}, {"ended": "given up"}, {"label": None},
            {"radius": -1.0}, {"radius": "0.1"},
            {"truth": [1]}, {"radii": []}, {"seconds": "x"}, {"truth": True}, {"subset": 3}, {"model": None},
            {"sigmas": [[0.5]]}, {"counts": [1.5]}, {"norm": "l1"}, {"exact": 1},
        )),
        *(json.dumps({k: v for k, v in CONTENT.items() if k != lost}) for lost in ("radius", "truth", "schedule")),
        ONE.to_json()[:-20],
        ONE.to_json() + ONE.to_json(),
    ],
)  # fmt: skip
def test_garbage_in_the_middle_is_named_by_its_line(tmp_path, garbage):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join([ONE.to_json(), garbage, ONE.to_json(), ""]))
    with pytest.raises(RecordError, match=r"run\.jsonl, line 2"):
        read_records(path)


def test_a_file_that_is_missing_or_not_text_is_refused(tmp_path):
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    for name in ("none.jsonl", "bytes.jsonl"):
        with pytest.raises(RecordError, match=name):
            read_records(tmp_path / name)


def test_an_abstention_is_never_correct_and_a_label_only_if_it_is_the_truth():
    assert ONE.correct
    assert not replace(ONE, truth=2).correct
    assert not build_record(0, 1, 1, 0.0).correct
