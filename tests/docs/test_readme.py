"""What the README shows is what happens."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_library_example_runs_as_printed(capsys):
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_every_linked_file_is_there():
    links = re.findall(r"\]\((?!http)([^)#\s]+)\)", README)
    assert len(links) > 10
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_commands_that_are_shown_parse():
    from ars.cli import make_parser

    [block] = re.findall(r"```\n(ars .*?)```", README, flags=re.DOTALL)
    for line in block.strip().splitlines():
        make_parser().parse_args(line.split("#")[0].split()[1:])
