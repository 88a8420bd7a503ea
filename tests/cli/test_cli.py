"""The command line as its users meet it: exit codes, one-sentence errors, JSON, Ctrl-C."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp
from PIL import Image

from ars.cli import COMMANDS, main, make_parser
from ars.cli.interrupt import end_if_asked, stoppable, terminable
from ars.data.settings import Data
from ars.experiments.recipe import Recipe
from ars.experiments.recipe_file import read_recipe, recipe_keys
from ars.theory import ars_radius_l2, ars_radius_linf

TINY = [
    "--data.passes=1",
    "--classifier.width=4",
    "--mask.width=2",
    "--train.batch_size=256",
    "--train.precision=float32",
]
FEW = ["--examples=4", "--n-select=20", "--n-estimate=40", "--precision=float32"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", "--out", str(folder), *TINY, "--train.epochs=1", "--device=cpu"]) == 0
    return folder


def sentence(capsys):
    """The one line that an error prints."""
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("ars: ")
    return lines[0]


@pytest.mark.parametrize(
    "code",
    [
        "import ars.theory",
        "import ars; dir(ars)",
        "import ars; ars.theory.rs_radius_l2, ars.data.Data, ars.training.TrainSettings",
        "from ars.cli import main; main(['--help'])",
    ],
)
def test_theory_and_help_leave_torch_unloaded(code):
    check = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


@pytest.mark.parametrize("command", [module.__name__.rsplit(".", 1)[1] for module in COMMANDS])
def test_every_help_teaches_by_example_without_torch(command):
    check = (
        f"import sys\nfrom ars.cli import main\ntry:\n    main([{command!r}, '--help'])\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules"
    )
    text = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True).stdout
    assert f"ars {command} " in text.split("usage:", 1)[1].split("\n\n", 1)[1]


def defaults_of(parser):
    """The options, of all commands, that have a default other than nothing."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from defaults_of(inner)
        elif action.option_strings and action.default not in (None, False, argparse.SUPPRESS):
            yield pytest.param(action, id=f"{parser.prog} {action.option_strings[-1]}")


@pytest.mark.parametrize("action", list(defaults_of(make_parser())))
def test_a_default_stands_in_the_help(action):
    shown = " ".join(map(str, action.default)) if isinstance(action.default, tuple) else str(action.default)
    told = action.help.startswith(f"{shown} (") or f"(default: {shown})" in action.help
    assert told, action.help


def test_no_key_has_two_defaults(capsys):
    assert main(["train", "--keys"]) == 0
    for about in capsys.readouterr().out.split("\n  --")[1:]:
        assert " ".join(about.split()).count("Default: ") == 1, about


def test_the_help_of_certify_lists_the_keys_of_the_data(capsys):
    with pytest.raises(SystemExit):
        main(["certify", "--help"])
    text = capsys.readouterr().out
    for key in recipe_keys(Data(), "data."):
        assert key == "data.kind" or f"--{key} VALUE" in text


def test_public_names_are_all_there():
    import ars

    for name in ars.__all__:
        assert getattr(ars, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = ars.magic


@pytest.mark.parametrize(
    "package",
    [
        "theory",
        "training",
        *(pytest.param(it, marks=pytest.mark.slow) for it in ("data", "methods", "models", "smoothing")),
    ],
)
def test_public_packages_are_there_after_importing_ars_alone(package):
    check = (
        f"import ars\nassert {package!r} in dir(ars)\nfor name in ars.{package}.__all__:\n"
        f"    assert name in dir(ars.{package}) and getattr(ars.{package}, name) is not None\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


def test_radius_prints_what_the_theory_says(capsys):
    assert main(["radius", "--sigma", "0.7", "0.7", "--masked", "--dim", "3072", "--p-plus", "0.99", "--json"]) == 0
    typed = Fraction(99, 100)
    assert json.loads(capsys.readouterr().out)["radius"] == ars_radius_linf([0.7, 0.7], 3072, typed, 1 - typed)
    assert main(["radius", "--sigma", "0.5", "--dim", "3072", "--p-plus", "0.4"]) == 0
    assert "abstain" in capsys.readouterr().out
    assert main(["radius", "--sigma", "0.5", "--dim", "3072", "--p-plus", "0.99", "--norm", "l2"]) == 0
    assert capsys.readouterr().out == "radius 1.163173 in l2\n"


def test_a_bound_on_the_runner_up_counts_in_both_norms(capsys):
    question = ["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6", "--p-minus=0.1", "--json"]
    typed = Fraction(6, 10), Fraction(1, 10)
    assert main(question) == 0
    assert json.loads(capsys.readouterr().out)["radius"] == ars_radius_linf([0.5], 3072, *typed)
    assert main([*question, "--norm=l2"]) == 0
    assert json.loads(capsys.readouterr().out)["radius"] == ars_radius_l2([0.5], *typed)


def test_a_probability_that_was_typed_is_not_rounded_up(capsys):
    for typed in ("0.99999999999999985", "0.500000000000000056"):
        assert main(["radius", "--sigma=1", "--dim=1", "--norm=l2", f"--p-plus={typed}", "--json"]) == 0
        with mp.workdps(60):
            exact = mp.sqrt(2) * mp.erfinv(2 * mp.mpf(typed) - 1)
            assert json.loads(capsys.readouterr().out)["radius"] < exact


def test_a_reader_that_went_away_is_a_failure_without_a_word(monkeypatch, capsys):
    def gone(options):
        raise BrokenPipeError

    monkeypatch.setattr("ars.cli.radius.run", gone)
    assert main(["radius", "--sigma=0.5", "--dim=3072", "--p-plus=0.6"]) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sigma", "0", "--dim", "3072", "--p-plus", "0.9"], "positive noise levels"),
        (["--sigma", "0.5", "--dim", "0", "--p-plus", "0.9"], "dim must be"),
        (["--sigma", "0.5", "--dim", "3", "--p-plus", "1.0"], "p_plus must lie in"),
        (["--sigma", "0.5", "--dim", "3", "--p-plus", "0.9", "--norm", "l2", "--masked"], "covers 'linf'"),
    ],
)
def test_a_bad_radius_question_gets_one_sentence(arguments, words, capsys):
    assert main(["radius", *arguments]) == 2
    assert words in sentence(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "ars needs COMMAND; 'ars --help' says more"),
        (["magic"], "there is no command magic; 'ars --help' says more"),
        (["cerify", "runs/ars"], "there is no command cerify; did you mean certify? 'ars --help' says more"),
        (["data", "lst"], "there is no action lst; did you mean list? 'ars data --help' says more"),
        (["radius", "--sgma", "1"], "ars radius needs --sigma, --dim, --p-plus; 'ars radius --help' says more"),
        (["certify", "x", "--n-estimate", "1e4"], "--n-estimate must be a whole number, got 1e4; 'ars certify --help'"),
        (["certify", "x", "--alpha", "small"], "--alpha must be a number, got small; 'ars certify --help'"),
        (
            ["certify", "x", "--mode", "curv"],
            "--mode must be one of fixed, radius or curve, got curv; did you mean cur",
        ),
        (["certify", "x", "--mode"], "--mode: expected one argument; 'ars certify --help' says more"),
        (["radius", "--p-plus", "nan"], "--p-plus must be a probability, got nan; 'ars radius --help' says more"),
        (["radius", "--p-plus", "1/0"], "--p-plus must be a probability, got 1/0; 'ars radius --help' says more"),
        (["radius", "--p-minus=-0.1"], "--p-minus must be a probability, got -0.1; 'ars radius --help' says more"),
        (["radius", "--p-plus", "1e-99999999"], "--p-plus must be a probability, got 1e-99999999; 'ars radius --help'"),
        (["radius", "--p-minus", "1e999"], "--p-minus must be a probability, got 1e999; 'ars radius --help' says more"),
        (["certify", "x", "--radii", "wide"], "--radii must be a radius, got wide; 'ars certify --help'"),
    ],
)
def test_what_cannot_be_read_gets_one_sentence_and_exit_code_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert words in sentence(capsys)


def test_a_second_recipe_is_one_argument_too_many(capsys):
    assert main(["train", "one.yaml", "two.yaml"]) == 2
    assert "two.yaml is one argument too many; 'ars train --help' says what it takes" in sentence(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["train", "a.yaml", "--train.epoch", "3"],
            "there is no --train.epoch; did you mean --train.epochs? 'ars train --keys' lists",
        ),
        (
            ["certify", "x", "--n_estimate=9"],
            "there is no --n_estimate=9; did you mean --n-estimate? 'ars certify --help' lists",
        ),
        (["certify", "x", "--magic"], "there is no --magic; 'ars certify --help' lists"),
        (["data", "list", "--magic"], "there is no --magic; 'ars data list --help' lists"),
    ],
)
def test_unknown_options_are_refused_in_one_sentence_that_says_where_the_known_ones_are(arguments, words, capsys):
    assert main(arguments) == 2
    assert words in sentence(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.yaml", "--out", "x"], "there is no recipe at nowhere.yaml"),
        (["--out", "x", "--sigma", "-1"], "sigma must be positive"),
        ([], "--out RUN"),
        (["--out", "x", "--device", "abacus"], "torch cannot use the device 'abacus'"),
    ],
)
def test_bad_training_requests_leave_nothing_behind(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    assert words in sentence(capsys)
    assert list(tmp_path.iterdir()) == []


def test_certify_report_and_predict_follow_from_a_run(trained, capsys, tmp_path):
    assert main(["certify", str(trained), *FEW, "--stages", "2", "--device", "cpu"]) == 0
    assert "ARS" in capsys.readouterr().out
    with np.load(trained / "certify" / "test" / "stages.npz") as stages:
        assert stages["index"].tolist() == [0, 1]
    assert main(["report", str(trained), "--out", str(tmp_path / "report"), "--json"]) == 0
    json.loads(capsys.readouterr().out)
    assert (tmp_path / "report" / "index.html").is_file()

    picture = tmp_path / "a.png"
    Image.fromarray(np.zeros((24, 24, 3), dtype=np.uint8)).save(picture)
    assert main(["predict", str(trained), str(picture), *FEW[1:], "--json", "--device", "cpu"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["file"] == str(picture)
    assert sum(answer["votes"].values()) == 40
    assert (answer["label"] is None) == (answer["radius"] == 0)
    assert main(["predict", str(trained), str(picture), *FEW[1:], "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(f"{picture}: ")


def test_an_image_of_another_size_or_no_image_is_refused(trained, capsys, tmp_path):
    picture = tmp_path / "a.png"
    Image.fromarray(np.zeros((20, 30, 3), dtype=np.uint8)).save(picture)
    assert main(["predict", str(trained), str(picture)]) == 2
    assert "is 30x20, the model takes 24x24" in sentence(capsys)
    assert main(["predict", str(trained), str(tmp_path / "none.png")]) == 2
    assert "there is no image at" in sentence(capsys)
    assert main(["predict", str(trained), str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder; name the image files in it" in sentence(capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alpha", "0"], "alpha must lie between 1e-100 and 0.5"),
        (["--n-estimate", "4"], "cannot certify anything"),
        (["--norm", "l2"], "MaskedGaussian covers 'linf'"),
        (["--examples", "100000"], "are too many; set certify.examples to 300 or fewer (--examples of ars certify)"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_bad_certification_requests_get_one_sentence_and_write_no_record(trained, options, words, capsys):
    assert main(["certify", str(trained), *FEW, "--name", "bad", *options, "--device", "cpu"]) == 2
    assert words in sentence(capsys)
    assert not list((trained / "certify").glob("bad/*"))


@pytest.mark.parametrize("command", [["certify"], ["predict"], ["report", "--out", "r"]])
def test_what_is_no_run_folder_is_refused(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    extra = ["x.png"] if command == ["predict"] else []
    assert main([command[0], "nowhere", *extra, *command[1:]]) == 2
    assert "nowhere" in sentence(capsys)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shard-size", "0"], "--shard-size must be at least 1, got 0"),
        (["--shard-size", "-1"], "--shard-size must be at least 1, got -1"),
        (["--stages", "-1"], "--stages must be at least 0, got -1"),
    ],
)
def test_numbers_of_things_that_cannot_be_are_refused(trained, capsys, arguments, words):
    assert main(["certify", str(trained), *FEW, *arguments, "--device", "cpu"]) == 2
    assert words in sentence(capsys)


@pytest.mark.parametrize("radius", ["1/0", "1e999"])
def test_a_radius_that_is_no_number_is_refused(capsys, radius):
    with pytest.raises(SystemExit) as caught:
        main(["certify", "x", "--mode", "curve", "--radii", radius])
    assert caught.value.code == 2
    assert f"{radius} is not a number; give radii such as" in capsys.readouterr().err


def test_a_damaged_model_is_refused(trained, capsys, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:-7])
    assert main(["certify", str(copy), *FEW]) == 2
    assert "is damaged" in sentence(capsys)
    (copy / "model.safetensors").unlink()
    assert main(["certify", str(copy), *FEW]) == 2
    assert "there is no model.safetensors; run the same ars train" in sentence(capsys)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_the_first_step_one_signal_ends_a_training(tmp_path, capsys, monkeypatch, number):
    def build(*arguments):
        os.kill(os.getpid(), number)
        time.sleep(60)

    monkeypatch.setattr("ars.experiments.training.build_model", build)
    start = time.monotonic()
    assert main(["train", "--out", str(tmp_path / "run"), "--method=sukenik", *TINY, "--device=cpu"]) == 130
    assert time.monotonic() - start < 30
    preparing, _, interrupted = capsys.readouterr().err.splitlines()
    assert "measuring the distances between training images first, which may take minutes" in preparing
    assert "interrupted; run the same command again" in interrupted
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "place", "then"),
    [
        (["predict", "RUN", "a.png"], "ars.cli.predict.recipe_of", "nothing is kept, so run it anew"),
        (["data", "check", "digits"], "ars.cli.data.check", "nothing is kept, so run it anew"),
        (["report", "RUN", "--out", "OUT"], "ars.report.write_report", "nothing is kept, so run it anew"),
        (["vote", "RUN"], "ars.cli.vote.recipe_of", "run the same command again to go on from here"),
        (["certify", "RUN"], "ars.cli.certify.settings_of", "run the same command again to go on from here"),
        (
            ["pack", "S", "--runs", "R", "--out", "O"],
            "ars.cli.pack.read_sweep",
            "run the same command again to go on from here",
        ),
    ],
)
def test_an_interrupted_command_says_whether_it_goes_on(arguments, place, then, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    assert main(arguments) == 130
    assert capsys.readouterr().err == f"\nars: interrupted; {then}: ars {' '.join(arguments)}\n"


def test_ctrl_c_while_the_commands_are_imported_is_no_traceback():
    code = """
import sys
class Impatient:
    def find_spec(self, name, path, target=None):
        if name == "ars.cli.certify":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Impatient())
from ars.cli import main
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "\nars: interrupted before anything was begun\n")


def test_images_that_are_left_out_are_said_plainly(tmp_path):
    for number in range(30):
        for name in ("cat", "dog"):
            (tmp_path / "pets" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "pets" / name / f"{number}.png")
    (tmp_path / "pets" / "cat" / "text.png").write_text("no image")
    arguments = ["data", "show", "folder", "--root", tmp_path / "pets", "--size", "8", "--skip-unreadable"]
    command = [sys.executable, "-m", "ars.cli", *map(str, arguments), "--out", str(tmp_path / "sheet.png")]
    errors = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert errors.startswith(f"ars: skipped: {tmp_path}/pets/cat/text.png cannot be read as an image: ")
    assert len(errors.splitlines()) == 1


def test_once_it_is_asked_for_a_signal_is_kept_for_the_next_safe_point():
    with stoppable() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with stoppable(at_once=False) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop()


def test_a_terminal_that_goes_away_ends_work_as_sigterm_does_but_not_under_nohup():
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with stoppable() as stop:
            assert not stop()
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop()
        with terminable(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with terminable(), stoppable() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_came_too_late_for_a_step_ends_what_comes_after():
    with stoppable() as stop:
        stop()
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        end_if_asked()
    end_if_asked()
    with stoppable():
        pass
    end_if_asked()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_training_says_how_to_go_on_and_does(tmp_path, number):
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "ars.cli",
        "train",
        "--out",
        str(folder),
        *TINY,
        "--train.epochs=400",
        "--device=cpu",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 120
    while not (folder / "train.jsonl").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "run the same command again to go on from here" in errors
    assert "Traceback" not in errors
    assert (folder / "checkpoint.safetensors").exists()
    assert not (folder / "model.safetensors").exists()
    assert not list(folder.glob("*.part"))


def test_overrides_may_stand_anywhere_and_keys_are_listed(capsys, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("sigma: 0.3\n")
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", *out, "--train.epochs", "1", str(recipe), *TINY, "--seed", "4", "--device", "cpu"]) == 0
    resolved = read_recipe(tmp_path / "run" / "recipe.yaml")
    assert (resolved.sigma, resolved.seed, resolved.train.epochs) == (0.3, 4, 1)
    capsys.readouterr()
    assert main(["train", "--keys"]) == 0
    listed = re.findall(r"^  --(\S+) .+\n      \S", capsys.readouterr().out, flags=re.MULTILINE)
    assert listed == list(recipe_keys(Recipe()))  # which are the options that train has
    assert {"start.size", "start.through", "train.mask_schedule.every", "train.mask.lr"} <= set(listed)
