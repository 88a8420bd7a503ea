"""What the page on training shows can be run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if not language for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_a_recipe(line, monkeypatch):
    from ars.cli.main import make_parser
    from ars.recipes.read import read_recipe

    monkeypatch.chdir(ROOT)
    options = make_parser().parse_args(line.split()[1:])
    read_recipe(options.recipe, options.overrides or [])


def test_there_are_commands():
    assert len(COMMANDS) > 8
