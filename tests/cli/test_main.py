"""The command line as its users meet it: help, exit codes, and one sentence for each mistake."""

import argparse
import re
import signal
import subprocess
import sys
import time

import pytest

from ars.cli.main import COMMANDS, main, make_parser
from ars.recipes.keys import recipe_keys

from .conftest import TINY_OPTIONS, command, interrupt, signal_self, wait_for

RADIUS = ["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6"]


def test_every_help_teaches_by_example_and_loads_no_torch():
    check = (
        "import sys\nfrom ars.cli.main import main\n"
        f"for name in {[module.__name__.rsplit('.', 1)[1] for module in COMMANDS]!r}:\n"
        "    try:\n        main([name, '--help'])\n    except SystemExit:\n        pass\n"
        "assert 'torch' not in sys.modules"
    )
    text = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True).stdout
    for usage in text.split("usage: ")[1:]:
        name = usage.split()[1]
        assert f"ars {name} " in usage.split("\n\n", 1)[1], name


def defaults_of(parser):
    """The options of all commands that have a default other than nothing."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from defaults_of(inner)
        elif action.option_strings and action.default not in (None, False, (), argparse.SUPPRESS):
            yield pytest.param(action, id=f"{parser.prog} {action.option_strings[-1]}")


@pytest.mark.parametrize("action", list(defaults_of(make_parser())))
def test_a_default_stands_in_the_help(action):
    shown = " ".join(map(str, action.default)) if isinstance(action.default, tuple) else str(action.default)
    assert action.help.startswith(f"{shown} (") or f"(default: {shown})" in action.help, action.help


def test_the_keys_that_are_listed_are_those_of_a_recipe_each_with_one_default(capsys):
    assert main(["train", "--keys"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"^  --(\S+) .+\n      \S", text, flags=re.MULTILINE) == recipe_keys()
    for about in text.split("\n  --")[1:]:
        assert " ".join(about.split()).count("Default: ") == 1, about


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "ars needs COMMAND; see 'ars --help'"),
        (["magic"], "command magic; see 'ars --help'"),
        (["cerify", "runs/ars"], "command cerify; did you mean certify?"),
        (["data", "lst"], "action lst; did you mean list? see 'ars data --help'"),
        (["radius", "--sgma", "1"], "ars radius needs --sigma, --dim, --p-plus; see 'ars radius --help'"),
        (["certify", "x", "--n-estimate", "1e4"], "--n-estimate must be a whole number, got 1e4"),
        (["certify", "x", "--alpha", "small"], "--alpha must be a number, got small"),
        (["certify", "x", "--mode", "curv"], "--mode must be one of fixed, radius or curve, got curv; did you mean"),
        (["certify", "x", "--mode"], "--mode: expected one argument; see 'ars certify --help'"),
        (["certify", "x", "--radii", "wide"], "--radii must be a radius, got wide"),
        (["certify", "x", "--radii", "1/0"], "1/0"),
        (["certify", "x", "--radii", "1e999"], "1e999"),
        (["train", "one.yaml", "two.yaml"], "two.yaml is one argument too many; see 'ars train --help'"),
        (["train", "a.yaml", "--train.epoch", "3"], "--train.epoch; did you mean --train.epochs? 'ars train --keys'"),
        (["certify", "x", "--n_estimate=9"], "--n_estimate=9; did you mean --n-estimate? 'ars certify --help'"),
        (["certify", "x", "--magic"], "--magic; 'ars certify --help'"),
        (["data", "list", "--magic"], "--magic; 'ars data list --help'"),
    ],
)
def test_what_cannot_be_parsed_gets_one_sentence_and_exit_code_2(arguments, words, refused):
    assert words in refused(arguments)


@pytest.mark.parametrize("words", [["certify", "nowhere"], ["predict", "nowhere", "x.png"], ["vote", "nowhere"],
                                   ["report", "nowhere", "--out", "r"]])  # fmt: skip
def test_what_is_not_a_run_folder_is_refused(words, desk, refused):
    assert "nowhere" in refused(words)
    assert list(desk.iterdir()) == []


def test_a_reader_that_went_away_is_a_failure_without_a_word(monkeypatch, capsys):
    def gone(options):
        raise BrokenPipeError

    monkeypatch.setattr("ars.cli.radius.run", gone)
    assert main(RADIUS) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "place", "resumes"),
    [
        (["predict", "RUN", "a.png"], "ars.cli.predict.recipe_of", False),
        (["data", "check", "digits"], "ars.cli.data.check", False),
        (["report", "RUN", "--out", "OUT"], "ars.report.write_report", False),
        (["vote", "RUN"], "ars.cli.vote.recipe_of", True),
        (["certify", "RUN"], "ars.cli.certify.settings_of", True),
        (["pack", "S", "--runs", "R", "--out", "O"], "ars.cli.pack.read_sweep", True),
    ],
)
def test_an_interrupted_command_says_whether_it_resumes(arguments, place, resumes, capsys, monkeypatch):
    monkeypatch.setattr(place, interrupt)
    assert main(arguments) == 130
    said = capsys.readouterr().err
    assert said.endswith(f": ars {' '.join(arguments)}\n")
    assert ("resume" in said) == resumes


def test_ctrl_c_while_the_commands_are_imported_is_no_traceback():
    code = """
import sys
class Impatient:
    def find_spec(self, name, path, target=None):
        if name == "ars.cli.certify":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Impatient())
from ars.cli.main import main
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 130
    [_, line] = ended.stderr.split("\n", 1)
    assert line.startswith("ars: interrupted")
    assert line.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_the_first_step_one_signal_ends_a_training(tmp_path, capsys, monkeypatch, number):
    def build(*arguments):
        signal_self(number)
        time.sleep(60)

    monkeypatch.setattr("ars.workflows.train.build_model", build)
    start = time.monotonic()
    assert main(["train", "--out", str(tmp_path / "run"), "--method=sukenik", *TINY_OPTIONS]) == 130
    assert time.monotonic() - start < 30
    preparing, _, interrupted = capsys.readouterr().err.splitlines()
    assert "may take minutes" in preparing
    assert "interrupted; run the same command again" in interrupted
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_keeps_a_checkpoint(tmp_path, number):
    folder = tmp_path / "run"
    process = command("train", "--out", folder, *TINY_OPTIONS, "--train.epochs=400")
    wait_for(process, "train.jsonl", under=folder)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "run the same command again" in errors
    assert "Traceback" not in errors
    assert (folder / "checkpoint.safetensors").exists()
    assert not (folder / "model.safetensors").exists()
    assert not list(folder.glob("*.part"))
