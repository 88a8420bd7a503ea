"""Logs of other programs beside runs: in the table, on the page and in the figure, and called what they are."""

import json

import numpy as np
import pytest

from ars.cli.main import main
from ars.report import ReportError, write_report

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "theirs.tsv"
    path.write_text(HEADER + "0\t3\t3\t0.03\t1\t0\n1\t8\t-1\t0.0\t0\t0\n2\t2\t1\t0.3\t0\t0\n3\t1\t1\t0.01\t1\t0\n")
    return path


def test_a_log_stands_beside_the_runs_and_says_that_it_was_not_checked(runs, log, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["report", *map(str, runs[:2]), str(log), "--log-norm", "linf", "--out", str(out)]
    assert main(options) == 0
    for text in (capsys.readouterr().out, (out / "table.md").read_text(), (out / "index.html").read_text()):
        assert "Read from a log, not checked" in text
        assert "theirs" in text
    assert "theirs (a log, not checked)" in (out / "curves.svg").read_text()
    assert main([*options, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)[0]["logs"]
    assert (found["standard_accuracy"], found["images"], found["checked"]) == (0.5, 4, False)
    for share in found["certified_accuracy"]:
        assert share["mean"] == np.mean([share["radius"] / 255 <= 0.03, 0, 0, share["radius"] / 255 <= 0.01])


def test_a_log_of_another_norm_is_not_shown_as_if_it_were_of_this_one(runs, log, tmp_path):
    with pytest.raises(ReportError, match="--log-norm"):
        write_report(runs, tmp_path / "out", logs=[log])
    assert not (tmp_path / "out").exists()


def test_a_log_alone_is_refused(log, tmp_path, capsys):
    assert main(["report", str(log), "--out", str(tmp_path / "out")]) == 2
    assert "run folder" in capsys.readouterr().err


def test_a_report_without_logs_has_none(runs, tmp_path):
    write_report(runs, tmp_path / "out")
    assert "logs" not in json.loads((tmp_path / "out" / "table.json").read_text())[0]
    assert "not checked" not in (tmp_path / "out" / "index.html").read_text()
