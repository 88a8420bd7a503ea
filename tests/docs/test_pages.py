"""The code of the README and of the pages on your own model and on training runs runs as printed."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

from ars.adapters import Adapted
from ars.cli.main import main
from ars.recipes.read import read_recipe

ROOT = Path(__file__).parents[2]


def read(page):
    """A page, and the code blocks in it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text, re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def run(code, page):
    """The names that a block of Python defines."""
    names = {}
    exec(compile(code, page, "exec"), names)
    return names


def test_the_example_of_the_readme_runs_in_ten_lines(capsys):
    [code] = re.findall(r"```python\n(.*?)```", read("README.md")[0], flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    labels = run(code, "README.md")["labels"]
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [int(label) for label, _ in printed] == labels.tolist()
    [shown] = re.findall(r"prints the three labels, each right, and radii of (.*?) to (.*?)/255", read("README.md")[0])
    radii = [255 * float(radius) for _, radius in printed]
    assert (min(radii), max(radii)) == pytest.approx([float(text) for text in shown], abs=0.3)  # of another device


def test_every_target_of_the_makefile_that_the_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", read("README.md")[0], flags=re.MULTILINE))
    assert {"demo", "test", "results"} <= named
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in named)


def test_the_road_from_a_model_and_photos_to_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    *_, model, photos, commands, _, table, predict = read("docs/own-model.md")[1]
    (tmp_path / "my_model.py").write_text(model)
    run(photos, "own-model.md")
    for command in (*commands.splitlines(), *predict.splitlines()):
        assert main(shlex.split(command)[1:]) == 0
        output = capsys.readouterr()
    assert output.out.startswith("photos/day/20.png: day")
    sys.modules.pop("my_model")
    written = (tmp_path / "report" / "images-plain.csv").read_text().splitlines()
    header, *shown = table.splitlines()
    assert (written[0], len(written)) == (header, 16)
    for row in shown:  # votes may differ on another device
        number, *_ = row.split(",")
        assert row.split(",")[:4] == written[int(number) + 1].split(",")[:4]


def test_the_road_in_python_to_a_table_and_a_curve(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run(read("docs/own-model.md")[1][0], "own-model.md")
    assert "| model | " in capsys.readouterr().out
    assert names["accuracy"][0] > 0.5
    assert (tmp_path / "curve.svg").is_file()


def test_the_adapters_on_the_page_exist(monkeypatch):
    code = read("docs/own-model.md")[1][1]
    adapted = Adapted(torch.nn.Flatten(), mean=[0.5], std=[0.5])
    monkeypatch.setattr("ars.adapters.transformers.from_transformers", lambda path: adapted)
    assert run(code, "own-model.md")["model"].classifier is adapted


def test_the_batch_that_went_wrong_can_be_looked_at(tmp_path, monkeypatch):
    recipe = read_recipe(Path("digits"))
    (tmp_path / "runs" / "ars").mkdir(parents=True)
    (tmp_path / "runs" / "ars" / "recipe.yaml").write_text(recipe.to_yaml())
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", read("docs/training-runs.md")[0], flags=re.DOTALL)
    names = run(code, "training-runs.md")
    assert len(names["images"]) == len(names["labels"]) == recipe.train.batch_size


@pytest.mark.slow
def test_the_attack_library_of_the_page_on_soundness_runs(monkeypatch, capsys):
    pytest.importorskip("foolbox")
    monkeypatch.chdir(ROOT)
    [code] = re.findall(r"```python\n(.*?)```", read("docs/soundness.md")[0], flags=re.DOTALL)
    run(code, "soundness.md")
    printed = [re.findall(r"[\d.]+", line) for line in capsys.readouterr().out.splitlines()]
    assert [(times, int(changed) > 0) for times, changed, _ in printed] == [("0.99", False), ("4.0", True)]
