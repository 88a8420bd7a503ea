"""The files of a report: which there are, equal bytes, and what is removed."""

from hashlib import sha256

import pytest

from ars.report import ReportError, write_report
from ars.report.writing import LIST, make_list, remove_listed


def test_a_report_has_these_files_and_equal_runs_give_equal_bytes(runs, tmp_path):
    report, second = (write_report(runs, tmp_path / name / "out") for name in ("new", "second"))
    names = {"index.html", "table.md", "table.json", "curves.svg", "curves.png", "report-files.json"}
    names |= {"pipeline-ars-0.svg", "pipeline-ars-0.png", "images-ars-0.csv", "images-ars-1.csv", "images-cohen-0.csv"}
    names |= {"log-ars-0.tsv", "log-ars-1.tsv", "log-cohen-0.tsv"}
    assert {file.name for file in report.files} == names
    assert {file.name for file in (tmp_path / "new" / "out").iterdir()} == names
    assert len(report.table.sections) == 2
    for one, other in zip(report.files, second.files, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_refused_report_leaves_the_old_one(runs, tmp_path):
    out = tmp_path / "out"
    write_report(runs, out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    (runs[0] / "certify/test/stages.npz").write_bytes(b"cut")
    with pytest.raises(ReportError):
        write_report(runs, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_files_of_an_earlier_report_are_removed_and_those_of_the_user_stay(runs, tmp_path):
    out = tmp_path / "out"
    write_report(runs, out)
    (out / "images-mine.csv").write_text("mine")  # a name like ours, which no report wrote
    (out / "images-ars-0.csv").write_text("edited")
    kept = (out / "pipeline-ars-0.png").rename(tmp_path / "kept.png")
    (out / "pipeline-ars-0.png").symlink_to(kept)
    report = write_report(runs[2:], out)
    users = {"images-mine.csv", "images-ars-0.csv", "pipeline-ars-0.png"}
    assert {file.name for file in out.iterdir()} == {file.name for file in report.files} | users
    assert (out / "images-mine.csv").read_text() == "mine"
    assert (out / "images-ars-0.csv").read_text() == "edited"
    assert (out / "pipeline-ars-0.png").is_symlink()
    assert kept.exists()


@pytest.mark.parametrize("text", ["[", "[]", '{"files": [1]}', '{"files": {"../mine.csv": "DIGEST"}}'])
def test_a_list_that_no_report_wrote_removes_nothing(tmp_path, text):
    out, mine = tmp_path / "out", tmp_path / "mine.csv"
    mine.write_text("mine")
    out.mkdir()
    (out / "images-ars-0.csv").write_text("theirs")
    (out / LIST).write_text(text.replace("DIGEST", sha256(b"mine").hexdigest()))
    remove_listed(out, written=[])
    assert mine.exists()
    assert (out / "images-ars-0.csv").exists()


def test_a_new_file_that_also_has_an_old_name_stays(tmp_path):
    """As where letter case does not tell names apart."""
    (tmp_path / LIST).write_bytes(make_list({"Images.csv": b"new"}))
    (tmp_path / "images.csv").write_bytes(b"new")
    (tmp_path / "Images.csv").hardlink_to(tmp_path / "images.csv")
    remove_listed(tmp_path, written=["images.csv"])
    assert (tmp_path / "Images.csv").exists()
