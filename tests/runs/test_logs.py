"""Logs of locuslab's form: what is written is what their scripts read, and what is read is consistent."""

import csv

import numpy as np
import pytest

from ars.runs.logs import Line, read_log, to_log
from ars.runs.records import ReportError

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


def test_a_log_has_locuslabs_columns_and_comes_back(make_record, tmp_path):
    records = [make_record(0, 1, 1, 0.0199999999999), make_record(3, 0, 1, 2 / 255), make_record(5, 1, 1, 0.0)]
    path = tmp_path / "mine.tsv"
    path.write_text(to_log(records))
    rows = list(csv.DictReader(path.open(), delimiter="\t"))
    assert [row["idx"] for row in rows] == ["0", "3", "5"]
    assert [row["predict"] for row in rows] == ["1", "1", "-1"]
    assert [row["correct"] for row in rows] == ["1", "0", "0"]
    assert rows[0]["time"].startswith("0:00:0")
    log = read_log(path)
    assert log.name == "mine"
    for line, record in zip(log.lines, records, strict=True):
        assert line.truth == record.truth
        assert line.radius <= record.certificate.radius
        assert line.radius == pytest.approx(record.certificate.radius, abs=1e-9)


def test_the_accuracy_of_a_log_is_that_of_locuslabs_script(make_record, tmp_path):
    """Their analysis: mean over the lines of correct and radius >= r."""
    records = [make_record(index, index % 2, 1, 0.01 * (index + 1)) for index in range(10)]
    path = tmp_path / "mine.tsv"
    path.write_text(to_log(records))
    rows = list(csv.DictReader(path.open(), delimiter="\t"))
    for radius in (0.0, 0.035, 0.08):
        theirs = np.mean([int(row["correct"]) and float(row["radius"]) >= radius for row in rows])
        assert theirs == np.mean([record.correct and record.certificate.radius >= radius for record in records])


def test_their_log_is_read(tmp_path):
    path = tmp_path / "theirs"
    path.write_text(HEADER + "0\t3\t3\t1.45\t1\t0:00:24.1\n20\t8\t-1\t0.0\t0\t0:00:24\n40\t2\t1\t0.3\t0\t0:01:00\n")
    assert read_log(path).lines == (Line(0, 3, 3, 1.45), Line(20, 8, -1, 0.0), Line(40, 2, 1, 0.3))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        (HEADER, "none"),
        ("idx,label,predict,radius,correct,time\n", "tabs"),
        (HEADER + "0\t3\t3\n", "line 2"),
        (HEADER + "0\t3\t3\tnan\t1\t0\n", "contradicts"),
        (HEADER + "0\t3\t3\t-1\t1\t0\n", "contradicts"),
        (HEADER + "0\t3\t2\t1.0\t1\t0\n", "contradicts"),
        (HEADER + "0\t3\t-1\t1.0\t0\t0\n", "contradicts"),
        (HEADER + "0\t3\t3\t1.0\t1\t0\n0\t3\t3\t1.0\t1\t0\n", "twice"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, text, says):
    path = tmp_path / "log.tsv"
    path.write_text(text)
    with pytest.raises(ReportError, match=says):
        read_log(path)
