"""Recipes that come with ars are listed, printed and taken by name, in any folder."""

import pytest
import yaml

from ars.cli.main import main
from ars.recipes.read import SHIPPED, SWEEPS, read_recipe


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_shipped_file_is_listed_with_a_line_about_it(capsys):
    assert main(["recipes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for folder in (SHIPPED, SWEEPS):
        for path in folder.glob("*.yaml"):
            assert any(line.split()[0] == path.stem and len(line) > 40 for line in lines)
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize(
    ("given", "path"), [(["digits"], SHIPPED / "digits.yaml"), (["--sweep", "seeds"], SWEEPS / "seeds.yaml")]
)
def test_a_printed_file_is_the_file(given, path, capsys):
    assert main(["recipes", *given]) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")


def test_a_recipe_of_the_same_name_in_the_folder_comes_first(tmp_path):
    (tmp_path / "digits").write_text("sigma: 0.125\n")
    assert read_recipe(tmp_path / "digits").sigma == 0.125
    assert read_recipe((tmp_path / "digits").relative_to(tmp_path)).sigma == 0.125


def test_a_printed_sweep_file_works_where_it_is_put(tmp_path, capsys):
    main(["recipes", "--sweep", "digits"])
    (tmp_path / "mine.yaml").write_text(capsys.readouterr().out)
    assert main(["sweep", "mine.yaml", "--out", "runs", "--plan"]) == 0
    assert "15 left" in capsys.readouterr().out
    assert main(["sweep", "digits", "--out", "runs", "--plan"]) == 0
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text())["recipe"] == "digits"


@pytest.mark.parametrize("command", ["recipes digts", "train digts --out r", "sweep digts --out r"])
def test_a_wrong_name_gets_a_suggestion(command, capsys, tmp_path):
    assert main(command.split()) == 2
    assert "did you mean digits?" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
