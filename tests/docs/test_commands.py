"""Every `ars` command that a document shows can be parsed, and the sweep file that is shown can be read."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "EXPERIMENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\w+=\S+ |srun )*ars (.*)$|-m ars (.*)$", flags=re.MULTILINE)


def commands(page):
    """What follows `ars` or `-m ars` in the code blocks of a page."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for plain, module in COMMAND.findall(block):
            yield shlex.split(plain or module, comments=True)


SHOWN = [(page.name, arguments) for page in PAGES for arguments in commands(page)]


@pytest.mark.parametrize(("page", "arguments"), SHOWN, ids=[f"{page}: {' '.join(rest)}" for page, rest in SHOWN])
def test_a_command_is_one_that_ars_takes(page, arguments):
    from ars.cli.main import make_parser

    make_parser().parse_args(arguments)


def test_there_are_commands_on_most_pages():
    assert len(SHOWN) > 60
    assert len({page for page, _ in SHOWN}) >= 9


def test_the_trainings_on_their_page_are_recipes(monkeypatch):
    from ars.cli.main import make_parser
    from ars.recipes.read import read_recipe

    monkeypatch.chdir(ROOT)
    trainings = [arguments for page, arguments in SHOWN if page == "train.md" and arguments[0] == "train"]
    assert len(trainings) > 8
    for arguments in trainings:
        options = make_parser().parse_args(arguments)
        read_recipe(options.recipe, options.overrides or [])


def test_the_sweep_file_that_is_shown_can_be_read(tmp_path):
    from ars.workflows.sweeps.file import read_sweep

    [text] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    folder = tmp_path / "sweeps"
    folder.mkdir()
    (folder / "shown.yaml").write_text(text)
    cells = read_sweep(folder / "shown.yaml").cells
    assert cells[0].name == "cohen-k64-s0.5-seed0-long"
    assert len(cells) == 12
