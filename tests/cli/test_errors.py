"""Errors of the system as users meet them: one sentence that names the place and says what to do."""

import errno
import os
import subprocess
import sys

import pytest

from ars.cli import main
from ars.cli.errors import ADVICE, told
from ars.data.errors import DataError


@pytest.mark.parametrize("code", ADVICE)
def test_a_number_of_the_system_becomes_a_place_and_advice(code):
    assert told(OSError(code, os.strerror(code), "runs/x")) == f"runs/x: {os.strerror(code)}; {ADVICE[code]}"


def test_a_full_disk_that_is_not_named_is_one_that_is_written_to():
    said = told(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert said.startswith("the disk of the output or that of temporary files (")
    assert said.endswith("): No space left on device; make room and run the same command again")


@pytest.mark.parametrize("package", ["yaml", "numpy"])
def test_a_missing_package_is_named_even_before_a_command_is_read(package):
    begin = f"import sys; sys.modules[{package!r}] = None; from ars.cli import main; main(['train'])"
    done = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ars: the package {package} is missing; install ars again with all that it needs")
    assert len(done.stderr.splitlines()) == 1


def test_sentences_stay_as_they_are():
    assert told(DataError("one\n  two")) == "one two"
    assert told(OSError("a sentence of ours")) == "a sentence of ours"
    assert told(OSError(errno.EIO, "Input/output error", "x")) == "x: Input/output error"


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "show", "digits", "--out", "taken/sheet.png"],
        ["data", "get", "cifar10", "--root", "taken"],
        ["sweep", "sweep.yaml", "--out", "taken/runs"],
    ],
)
def test_a_file_in_the_way_is_named(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    (tmp_path / "recipe.yaml").write_text("sigma: 0.5\n")
    (tmp_path / "sweep.yaml").write_text("recipe: recipe.yaml\ngroups: [{methods: [cohen], sigma: [0.5]}]\n")
    assert main(arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "taken" in line
    assert line.endswith("a file is in the way: move it, or name another place")
