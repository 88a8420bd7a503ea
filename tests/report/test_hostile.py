"""Run folders and packed results of others: names with code, colours and paths in them, and links out of the folder."""

import csv
import html.parser
import io
import json
import shutil
from xml.etree import ElementTree

import pytest
import yaml

from ars.report import write_report
from ars.report.paper.results import write_results
from ars.report.rendering import images_csv
from ars.report.writing import write_all
from ars.runs.records import ReportError
from ars.runs.run import load_runs

from .paper.conftest import build_cell, files_of

NAMES = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\x1b[31mred\x1b[0m", "a\u202etxt.exe", "two\nlines",
    "[red]x[/red]", "=1+1", "{{ 7 * 7 }}", "$\\frac{$", "--> <b>", "]]>", "\x00",
]  # fmt: skip


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found, self.attributes = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append(tag)
        self.attributes |= {name for name, _ in attributes}


def rename(run, name):
    """Put the name wherever a run folder may have one."""
    about = json.loads((run / "benchmark.json").read_text())
    about |= {"title": name, "class_names": [f"{name}{number}" for number in range(3)]}
    (run / "benchmark.json").write_text(json.dumps(about))
    (run / "environment.json").write_text(json.dumps({"device": name, name: "x"}))
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["data"]["kind"] = name
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe | {"method": name, "train": {"note": name}}))
    (run / "certify/test/files.json").write_text(json.dumps([name] * 4))


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_is_text_and_nothing_else(make_run, tmp_path, name):
    run = make_run("plain", stages=2)
    write_report([run], tmp_path / "before")
    rename(run, name)
    write_report([run], tmp_path / "after")
    before, after = (Tags((tmp_path / place / "index.html").read_text()) for place in ("before", "after"))
    assert after.attributes <= before.attributes
    assert {tag: after.found.count(tag) for tag in ("script", "img", "b")} == {
        tag: before.found.count(tag) for tag in ("script", "img", "b")
    }
    for path in files_of(tmp_path / "after").values():
        if path.suffix != ".png":
            assert not set(path.read_text()) & set("\x00\x1b\u202e\u2066")
        if path.suffix == ".svg":
            ElementTree.parse(path)
    [found] = load_runs([run])
    for row in csv.reader(io.StringIO(images_csv(found))):
        assert not any(cell.startswith(("=", "+", "@")) for cell in row)


def test_packed_results_write_into_their_folder_alone(tmp_path):
    cell = build_cell(tmp_path / "results/sweep")
    sweep = cell.parent / "sweep.yaml"
    for name in ("../../../escaped", "/tmp/escaped", "a/b/c"):
        sweep.write_text(f"recipe_name: {name}\n")
        with pytest.raises(ReportError, match="no name for a file"):
            write_results(tmp_path / "results", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("*escaped*"))
    with pytest.raises(ReportError, match="no name"):
        write_all(tmp_path / "out", {"/etc/x": b""})


@pytest.mark.parametrize("place", ["tables", "figures"])
def test_a_link_in_packed_results_leads_nowhere(tmp_path, place):
    """The manifest of such a folder names files that the next report removes."""
    build_cell(tmp_path / "results/sweep")
    write_results(tmp_path / "results", tmp_path / "results")
    theirs, results = tmp_path / "theirs", tmp_path / "results"
    theirs.mkdir()
    (theirs / "id_rsa").write_text("kept")
    shutil.rmtree(results / place)
    (results / place).symlink_to(theirs)
    manifest = json.loads((results / "manifest.json").read_text())
    (results / "manifest.json").write_text(json.dumps(manifest | {"outputs": {f"{place}/id_rsa": []}}))
    with pytest.raises(ReportError, match="is a link"):
        write_results(results, results)
    assert [path.name for path in theirs.iterdir()] == ["id_rsa"]
    manifest["outputs"] = {f"{place}/../../theirs/id_rsa": [], "../theirs/id_rsa": []}
    (results / place).unlink()
    (results / "manifest.json").write_text(json.dumps(manifest))
    write_results(results, results)
    assert (theirs / "id_rsa").exists()


@pytest.mark.parametrize(
    "listed", ["[" * 100_000, json.dumps({"files": {"a" * 5000: "", "../kept": "", "\x00": ""}}), "[]", '{"files": 3}']
)
def test_a_list_of_files_that_is_no_list_removes_nothing(make_run, tmp_path, listed):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report-files.json").write_text(listed)
    write_report([make_run("a")], tmp_path / "out")
    assert (tmp_path / "kept").exists()
