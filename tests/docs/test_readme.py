"""The code in the README runs as printed."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_library_example_runs_as_printed(capsys):
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    [told] = re.findall(r"^print\(.*\)  # (.*?)(?::|$)", code, flags=re.MULTILINE)
    assert first == told
    assert float(second) >= 0


def test_every_target_of_the_makefile_that_is_named_exists():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.MULTILINE))
    assert {"demo", "test", "results"} <= named
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in named)
