"""ars attack as its users meet it: the table, the exit code, Ctrl-C and refusals."""

import json
import shutil
import signal

import pytest

from ars.certification.certifier import Certifier
from ars.cli.main import main
from ars.runs.attacks import read_attacks

from ..conftest import contents
from ..workflows.test_attack import false_digits
from .conftest import signal_self

QUICK = ["--steps=2", "--draws=4", "--restarts=1", "--verdict-draws=100", "--times=.99,8", "--device=cpu"]


@pytest.fixture
def certified(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def test_the_table_and_the_file(certified, printed):
    output = printed(["attack", str(certified), *QUICK, "--kinds=gradient,search"])
    rows = [line.replace("│", "").split() for line in output.out.splitlines() if line.startswith("│")]
    assert [row[:2] for row in rows] == [["0.99", "6"], ["8", "6"]]
    assert rows[0][2:] == ["0", "(0%)", "0", "0", "0"]
    assert "6 of 6 certified images attacked" in output.err
    attacks = read_attacks(certified, "test")
    assert attacks.settings["verdict_draws"] == 100
    before = contents(certified)
    text = printed(["attack", str(certified), *QUICK, "--kinds=gradient,search", "--json"]).out
    assert json.loads(text) == json.loads((certified / "attack" / "test.json").read_text())
    assert contents(certified) == before


def test_the_exit_code_is_1_where_a_label_falls_within_its_radius(tmp_path, capsys):
    run = false_digits(tmp_path / "run")
    line = ["attack", str(run), "--examples=2", "--steps=8", "--draws=16", "--restarts=1", "--times=.99",
            "--kinds=gradient", "--device=cpu"]  # fmt: skip
    for _ in range(2):  # also if all was done before
        assert main(line) == 1
        assert "the certificate of image 0 failed" in capsys.readouterr().err
    assert main([*line, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["broken"] == [0]


def test_ctrl_c_keeps_what_is_judged_and_names_the_command(certified, capfd, monkeypatch):
    line, real = ["attack", str(certified), *QUICK, "--kinds=transfer"], Certifier.votes
    monkeypatch.setattr("ars.audit.attack.Attacker.at_once", lambda self, images: 4)

    def votes(*arguments, **options):
        if options["stage"] == "select":
            signal_self(signal.SIGINT)
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Certifier, "votes", votes)
        assert main(line) == 130
    errors = capfd.readouterr().err
    assert f"run the same command again to resume: ars attack {certified}" in errors
    assert len(read_attacks(certified, "test").images) == 2
    assert main(line) == 0
    assert len(read_attacks(certified, "test").images) == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--examples=0"], "--examples must be at least 1, got 0"),
        (["--times=a"], "must be numbers between commas"),
        (["--times=0,1"], "times must be"),
        (["--kinds=guess"], "kinds must be"),
        (["--steps=0"], "steps"),
        (["--verdict-draws=0"], "verdict draws"),
        (["--seed=0"], "another --seed"),
        (["--name=none"], "none"),
        (["--name=../x"], "--name must be a plain folder name"),
    ],
)
def test_bad_options_get_one_sentence_and_write_nothing(trained, options, words, refused):
    before = contents(trained)
    assert words in refused(["attack", str(trained), "--device=cpu", *options])
    assert contents(trained) == before


def test_a_folder_that_is_no_certified_run_is_refused(tmp_path, cohen, pets, refused):
    assert "is not a run folder" in refused(["attack", str(tmp_path)])
    assert "ars certify" in refused(["attack", str(cohen), "--device=cpu"])
    assert "ars attack cannot load it" in refused(["attack", str(pets), "--device=cpu"])


def test_a_damaged_file_is_named(certified, refused):
    (certified / "attack").mkdir()
    (certified / "attack" / "test.json").write_text("{")
    assert "attack/test.json cannot be read" in refused(["attack", str(certified), *QUICK])
