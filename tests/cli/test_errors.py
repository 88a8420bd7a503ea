"""Errors of the system as users meet them: one sentence that names the place and says what to do."""

import errno
import os
import subprocess
import sys
import warnings

import pytest
from torch import OutOfMemoryError

from ars.cli.errors import ADVICE, describe_error, tell
from ars.cli.main import main
from ars.cli.views import View
from ars.data.settings import DataError, DataWarning

RADIUS = ["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6"]


@pytest.mark.parametrize("code", ADVICE)
def test_an_error_number_of_the_system_becomes_a_path_and_advice(code):
    assert describe_error(OSError(code, os.strerror(code), "runs/x")) == f"runs/x: {os.strerror(code)}; {ADVICE[code]}"


def test_sentences_stay_as_they_are():
    assert describe_error(DataError("one\n  two")) == "one two"
    assert describe_error(OSError("a sentence of ours")) == "a sentence of ours"
    assert describe_error(OSError(errno.EIO, "Input/output error", "x")) == "x: Input/output error"
    assert "temporary files (" in describe_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))  # without a path


@pytest.mark.parametrize("package", ["yaml", "numpy"])
def test_a_missing_package_is_named_even_before_a_command_is_read(package):
    begin = f"import sys; sys.modules[{package!r}] = None; from ars.cli.main import main; main(['train'])"
    done = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ars: the package {package} is missing")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "show", "digits", "--out", "taken/sheet.png"],
        ["data", "get", "cifar10", "--root", "taken"],
        ["sweep", "sweep.yaml", "--out", "taken/runs"],
    ],
)
def test_a_file_in_the_way_is_named(desk, refused, arguments):
    (desk / "taken").touch()
    (desk / "recipe.yaml").write_text("sigma: 0.5\n")
    (desk / "sweep.yaml").write_text("recipe: recipe.yaml\ngroups: [{methods: [cohen], sigma: [0.5]}]\n")
    said = refused(arguments)
    assert "taken" in said
    assert said.endswith(ADVICE[errno.EEXIST])


def run(line, **streams):
    return subprocess.run(
        ["sh", "-c", f"{sys.executable} -c 'from ars.cli.main import main; raise SystemExit(main())' {line}"],
        capture_output=True, check=False, **streams,
    )  # fmt: skip


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_bad_input_is_told_by_the_exit_code_if_nothing_can_be_printed(closed):
    assert run(f"certify nowhere {closed}").returncode == 2


@pytest.mark.slow
def test_a_training_needs_no_error_stream(tmp_path):
    tiny = "--data.passes=1 --classifier.width=4 --mask.width=2 --train.max_steps=1 --device=cpu"
    assert run(f"train --out {tmp_path / 'run'} {tiny} 2>&-").returncode == 0
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_letters_that_the_output_cannot_show_are_replaced():
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert run("radius --help", env=ascii_only).returncode == 0
    say = "import sys; from ars.cli.errors import usable_streams as make; make(); print(chr(963))"
    done = subprocess.run([sys.executable, "-c", say], env=ascii_only, capture_output=True, check=True)
    assert done.stdout == b"?\n"


@pytest.mark.parametrize(
    ("error", "hidden"),
    [
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"), True),
        (OutOfMemoryError(), True),
        (RuntimeError("a bug"), False),
    ],
)
def test_a_lack_of_memory_is_told_and_other_errors_of_torch_are_not_hidden(monkeypatch, refused, error, hidden):
    def fails(options):
        raise error

    monkeypatch.setattr("ars.cli.radius.run", fails)
    if hidden:
        assert "memory" in refused(RADIUS)
    else:
        with pytest.raises(RuntimeError, match="a bug"):
            main(RADIUS)


def test_a_warning_about_data_is_one_plain_line_and_others_name_their_place(monkeypatch):
    told = []

    def warns(options):
        told.extend(warnings.formatwarning(kind("text.png"), kind, "code.py", 7) for kind in (DataWarning, UserWarning))
        return 0

    monkeypatch.setattr("ars.cli.radius.run", warns)
    assert main(RADIUS) == 0
    assert told[0] == "ars: text.png\n"
    assert told[1].startswith("code.py:7: UserWarning: text.png")


def test_what_is_printed_moves_no_cursor(tmp_path, capsys):
    """Names of folders, and texts in files of others, are in sentences and in lines."""
    tell("cat\x1b[2J\u202etxt\r\nsecond line")
    assert main(["report", str(tmp_path / "run\x1b[31m"), "--out", "x"]) == 2
    View("run\x1b[31m").say("certifying [red]cat\x1b[0m[/red]")
    out, err = capsys.readouterr()
    assert out == "cat\\u001b[2J\\u202etxt\\u000d\nsecond line\n"
    assert "run\\u001b[31m: certifying [red]cat\\u001b[0m[/red]" in err
    assert "\x1b" not in err
