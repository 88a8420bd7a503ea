"""The page on your own model and photos runs as printed."""

import re
import shlex
import sys
from pathlib import Path

from ars.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "own-model.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_road_from_a_model_and_photos_to_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    model, photos, commands, _, table, predict = (block for _, block in BLOCKS)
    (tmp_path / "my_model.py").write_text(model)
    exec(compile(photos, "own-model.md", "exec"), {})
    for command in (*commands.splitlines(), *predict.splitlines()):
        assert main(shlex.split(command)[1:]) == 0
        output = capsys.readouterr()
    assert output.out.startswith("photos/day/20.png: day")
    sys.modules.pop("my_model")
    written = (tmp_path / "report" / "images-plain.csv").read_text().splitlines()
    header, *shown = table.splitlines()
    assert (written[0], len(written)) == (header, 16)
    for one in shown:  # votes may differ on another device
        number, *_ = one.split(",")
        assert one.split(",")[:4] == written[int(number) + 1].split(",")[:4]
