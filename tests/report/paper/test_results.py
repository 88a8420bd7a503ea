"""The results folder as a whole: equal bytes, and every output traceable to record files."""

import gzip
import json
import re
import shutil
from html import unescape

import pytest

from ars.cli.main import main
from ars.report.paper.results import read_outputs, write_results
from ars.report.writing import remove_others

from .conftest import build_cell, check_traceable, files_of


def test_ars_report_takes_packed_results_and_two_builds_are_equal_byte_by_byte(results, copied, tmp_path):
    assert main(["report", str(copied), "--out", str(tmp_path / "two")]) == 0
    one, two = files_of(results), files_of(tmp_path / "two")
    assert len(two) > 20
    for name in two:
        assert one[name].read_bytes() == two[name].read_bytes(), name


def test_everything_is_traceable_to_records(results):
    check_traceable(results, results)
    outputs = json.loads((results / "manifest.json").read_text())["outputs"]
    every = {name for name in files_of(results) if name.startswith(("fast/", "paper/", "small/"))}
    assert set(outputs["index.html"]) == every  # the masks too, which are those of ARS and of the static mask
    cells = {f"fast/{m}-k64-s0.5-seed{s}/" for m in ("cohen", "adaptive") for s in (0, 1)}
    cells |= {"fast/static_mask-k64-s0.5-seed0/"}
    numbers = {name for name in every if name.startswith(tuple(cells)) and not name.endswith("masks.npz")}
    assert set(outputs["figures/curves-fast-cifar_backgrounds-k64-s0.5.svg"]) == numbers
    masked = ("adaptive-k32", "adaptive-k64", "static_mask-k64")
    shown = {f"fast/{cell}-s0.5-seed0/{name}" for cell in masked for name in ("masks.npz", "recipe.yaml")}
    assert set(outputs["figures/masks-fast-cifar_backgrounds-s0.5.svg"]) == shown


def test_figures_of_cells_that_are_gone_go_too(copied):
    (copied / "fast/adaptive-k64-s0.5-seed0/vote.json").write_text("{}")
    with pytest.raises(AssertionError, match="adaptive"):  # a changed file is noticed
        check_traceable(copied, copied)
    shutil.rmtree(copied / "fast")
    write_results(copied, copied)
    assert not [name for name in files_of(copied) if "fast" in name]
    check_traceable(copied, copied)


def test_tables_and_figures_of_the_user_stay(tmp_path):
    build_cell(tmp_path / "fast", images=5)
    out = tmp_path / "out"
    (out / "figures" / "drafts").mkdir(parents=True)
    (out / "figures" / "mine.svg").write_text("mine")
    for _ in range(2):
        write_results(tmp_path, out)
    assert (out / "figures" / "mine.svg").read_text() == "mine"
    assert (out / "figures" / "drafts").is_dir()


@pytest.mark.parametrize("outputs", ['["../mine.svg", "figures/../../mine.svg", "figures/.."]', "1", '"figures/"', "["])
def test_a_manifest_that_names_other_files_removes_none(tmp_path, outputs):
    (tmp_path / "manifest.json").write_text(f'{{"outputs": {outputs}}}')
    assert read_outputs(tmp_path) in ([], ["figures/.."])
    (tmp_path / "figures").mkdir()
    remove_others(tmp_path, ["figures/.."], written=[])
    assert (tmp_path / "figures").is_dir()


def test_nothing_of_this_machine_is_written(results):
    for name, path in files_of(results).items():
        assert not re.search(rb"20\d\d-\d\d-\d\d|" + str(results.parent).encode(), path.read_bytes()), name


def test_the_page_holds_all_it_needs_and_its_links_lead_somewhere(results):
    page = (results / "index.html").read_text(encoding="utf-8")
    links, ids = set(re.findall(r'<a [^>]*?href="([^"]+)"', page)), set(re.findall(r' id="([^"]+)"', page))
    assert all(one.startswith("data:") for one in re.findall(r' (?:src|srcset|data|action|poster)="([^"]+)"', page))
    assert not re.search(r"https?:|@import|url\((?!#)", page)
    assert len(links) > 50
    for link in links:
        assert link[1:] in ids if link.startswith("#") else (results / link).exists(), link


def test_every_recipe_is_on_the_page(results):
    page = unescape((results / "index.html").read_text(encoding="utf-8"))
    recipes = list(results.glob("*/*/recipe.yaml"))
    assert len(recipes) > 3
    for path in recipes:
        at = page.index(f'id="recipe-{path.parent.parent.name}-{path.parent.name}"')
        assert page[at:].split("<pre", 1)[1].split(">", 1)[1].startswith(path.read_text(encoding="utf-8"))


def test_ars_report_takes_a_sweep_and_runs(results, tmp_path, capsys):
    assert main(["report", str(results / "small"), "--out", str(tmp_path / "sweep")]) == 0
    assert main(["report", *map(str, (results / "small").iterdir()), "--out", str(tmp_path / "runs")]) == 0
    sweep, runs = (files_of(tmp_path / name) for name in ("sweep", "runs"))
    assert sweep.keys() == runs.keys() > {"index.html", "curves.svg"}
    assert all(sweep[name].read_bytes() == runs[name].read_bytes() for name in sweep)
    capsys.readouterr()
    assert main(["report", str(results), "--json", "--out", str(tmp_path / "no")]) == 2
    assert "packed results" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_an_empty_folder_a_file_and_runs_that_are_not_packed_are_refused_in_one_sentence(tmp_path, capsys):
    def refused(*arguments):
        assert main(["results", *map(str, arguments)]) == 2
        [line] = capsys.readouterr().err.splitlines()
        return line

    assert refused(tmp_path).startswith(f"ars: {tmp_path} holds no results yet")
    assert list(tmp_path.iterdir()) == []
    folder = build_cell(tmp_path / "root" / "fast", images=5) / "certify/test"
    (tmp_path / "file").touch()
    assert "file is a file" in refused(tmp_path / "root", "--out", tmp_path / "file")
    assert "file is a file" in refused(tmp_path / "file", "--out", tmp_path / "new")
    (folder / "shard-00000.jsonl").write_bytes(gzip.decompress((folder / "records.jsonl.gz").read_bytes()))
    (folder / "records.jsonl.gz").unlink()
    assert "not packed" in refused(tmp_path / "root")


def test_a_refused_build_leaves_the_old_one(copied):
    (copied / "paper/cohen-k64-s0.5-seed0/vote.json").write_bytes(b"cut")
    before = {name: path.read_bytes() for name, path in files_of(copied).items()}
    assert main(["results", str(copied)]) == 2
    assert {name: path.read_bytes() for name, path in files_of(copied).items()} == before


def test_a_cell_without_records_is_named_and_nothing_certified_is_a_page_too(tmp_path, capsys):
    bare = build_cell(tmp_path / "fast", certified=False, voted=False)
    assert main(["results", str(tmp_path)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(f"{bare} has no records.*pack it again", line)
    assert "Nothing is certified here yet" in (tmp_path / "index.html").read_text(encoding="utf-8")
