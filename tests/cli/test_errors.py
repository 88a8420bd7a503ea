"""Errors of the system as users meet them: one sentence that names the place and says what to do."""

import errno
import os
import subprocess
import sys

import pytest
from torch import OutOfMemoryError

from ars.certification.shards import read_manifest
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


def test_a_file_in_the_place_of_a_folder_is_not_laid_to_the_manifest(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(NotADirectoryError):
        read_manifest(tmp_path / "taken" / "x")


def run(command, **streams):
    return subprocess.run(
        ["sh", "-c", f"{sys.executable} -c 'from ars.cli import main; raise SystemExit(main())' {command}"],
        capture_output=True, check=False, **streams,
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_bad_input_is_told_by_the_exit_code_where_nothing_can_be_said(closed):
    assert run(f"certify nowhere {closed}").returncode == 2


def test_a_training_goes_on_without_an_error_stream(tmp_path):
    tiny = "--data.passes=1 --classifier.width=4 --mask.width=2 --train.epochs=1 --device=cpu"
    assert run(f"train --out {tmp_path / 'run'} {tiny} 2>&-").returncode == 0
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_letters_that_the_output_cannot_show_are_replaced():
    done = run("radius --help", env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0
    say = "import sys; from ars.cli.streams import usable_streams as it; it(); print(chr(963))"
    done = subprocess.run(
        [sys.executable, "-c", say], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert done.stdout == b"?\n"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
        OutOfMemoryError(),
    ],
)
def test_too_little_memory_is_told(monkeypatch, capsys, error):
    def fails(options):
        raise error

    monkeypatch.setattr("ars.cli.radius.run", fails)
    assert main(["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6"]) == 2
    assert capsys.readouterr().err.startswith("ars: there is not enough memory for this; ask for less")


def test_other_errors_of_torch_are_not_hidden(monkeypatch):
    def fails(options):
        raise RuntimeError("a bug")

    monkeypatch.setattr("ars.cli.radius.run", fails)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6"])
