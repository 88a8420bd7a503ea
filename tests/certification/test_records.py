import json
import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ars.certification.bounds import BOUNDS
from ars.certification.certificate import Certificate
from ars.certification.limits import MOST_DRAWS
from ars.certification.records import Record, RecordError, read_records
from ars.certification.schedule import Schedule

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
    radius = 0.0 if label is None else draw(radii)
    certificate = Certificate(
        label=label,
        radius=radius,
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
    return Record(certificate, truth=draw(st.integers(0, 1000)), subset=draw(st.text()), seconds=draw(unit))


def record(index=0, **changes):
    certificate = Certificate(
        label=1, radius=0.1, norm="linf", dim=12, candidate=1, p_lower=0.9, p_upper=0.1, bound="cohen",
        radii={"cohen": 0.1, "classes": 0.09}, counts=(3, 97), select_counts=(0, 10), alpha=0.05, sigmas=(0.5, 0.7),
        seed=0, index=index, precision="float32", schedule=Schedule("fixed", 100), planned=100, ended="planned",
    )  # fmt: skip
    return replace(Record(certificate, truth=1, subset="test: k=32, \u03c3=\u00bd", seconds=0.25), **changes)


@given(records())
def test_a_record_comes_back_as_it_was(original):
    assert Record.from_json(original.to_json()) == original


def test_a_record_of_a_grid_comes_back_as_it_was():
    decided = replace(
        record().certificate, schedule=Schedule("curve", 1000, (0.05, 0.1)), planned=1000, ended="certified",
        radii={"cohen": 0.1},
    )  # fmt: skip
    original = record(certificate=decided)
    assert Record.from_json(original.to_json()) == original


@given(records())
def test_a_record_is_one_line_of_plain_json(original):
    line = original.to_json()
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["index"] == original.certificate.index


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(records(), max_size=5))
def test_a_file_of_records_comes_back_as_it_was(tmp_path_factory, originals):
    path = tmp_path_factory.mktemp("records") / "run.jsonl"
    path.write_text("".join(original.to_json() + "\n" for original in originals))
    assert read_records(path) == originals


def test_a_file_cut_anywhere_in_its_last_line_keeps_all_whole_lines(tmp_path):
    path = tmp_path / "run.jsonl"
    content = "".join(record(index).to_json() + "\n" for index in range(3)).encode()
    start = content[:-1].rfind(b"\n") + 1
    for cut in range(start, len(content)):
        path.write_bytes(content[:cut])
        assert [r.certificate.index for r in read_records(path)] == [0, 1]
    path.write_bytes(content)
    assert len(read_records(path)) == 3


def test_reading_never_changes_the_file(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(record().to_json() + "\n" + '{"cut')
    before = path.read_bytes()
    read_records(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "garbage",
    [
        "not json", "", "{}", "[]", "3", "null", '"text"', "true", "NaN", '{"truth": 1}', "\x00\x00\x00",
        json.dumps({**json.loads(record().to_json()), "new_field": 1}),
        json.dumps({k: v for k, v in json.loads(record().to_json()).items() if k != "radius"}),
        json.dumps({k: v for k, v in json.loads(record().to_json()).items() if k != "truth"}),
        json.dumps({**json.loads(record().to_json()), "counts": 5}),
        json.dumps({k: v for k, v in json.loads(record().to_json()).items() if k != "schedule"}),
        json.dumps({**json.loads(record().to_json()), "schedule": {"mode": "fixed"}}),
        json.dumps({**json.loads(record().to_json()), "ended": "given up"}),
        json.dumps({**json.loads(record().to_json()), "label": None}),
        json.dumps({**json.loads(record().to_json()), "radius": -1.0}),
        json.dumps({**json.loads(record().to_json()), "radius": "0.1"}),
        record().to_json()[:-20],
        record().to_json() + record().to_json(),
    ],
)  # fmt: skip
def test_garbage_in_the_middle_is_named_by_its_line(tmp_path, garbage):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join([record(0).to_json(), garbage, record(1).to_json(), ""]))
    with pytest.raises(RecordError, match=r"run\.jsonl, line 2, is not a certification record"):
        read_records(path)


def test_a_missing_file_cannot_be_read(tmp_path):
    with pytest.raises(RecordError, match="cannot read records from"):
        read_records(tmp_path / "none.jsonl")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(
        RecordError, match=r"cannot read records from .*; remove the file and run the same `ars certify` again"
    ):
        read_records(path)


def test_an_abstention_is_never_correct_and_a_label_only_where_it_is_the_truth():
    abstained = replace(record().certificate, label=None, radius=0.0)
    assert record(truth=1).correct
    assert not record(truth=2).correct
    assert not record(certificate=abstained, truth=1).correct


def test_a_float_is_written_in_full():
    radius = math.nextafter(0.1, 1)
    original = record(certificate=replace(record().certificate, radius=radius))
    assert Record.from_json(original.to_json()).certificate.radius == radius
