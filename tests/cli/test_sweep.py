"""ars sweep and ars pack as their users start them: killed, interrupted, out of time, with a cell that fails."""

import dataclasses
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from safetensors.torch import load_file

from ars.certification import shards
from ars.certification.shards import merge
from ars.cli import main, sweep
from ars.data.opening import open_benchmark
from ars.experiments.alone import alone_in
from ars.experiments.sweeps.budget import Budget
from ars.experiments.sweeps.file import read_sweep
from ars.experiments.sweeps.times import Figure, Times

BASE = """
data: {passes: 1}
classifier: {width: 4}
mask: {width: 2}
train: {epochs: 1, batch_size: 256, precision: float32}
certify: {examples: 12, n_select: 20, n_estimate: 50, precision: float32}
"""
SWEEP = """
recipe: base.yaml
groups:
  - {methods: [cohen], sigma: [0.5], vote: 10, keep_weights: true}
  - {methods: [static_mask], sigma: [0.5], seeds: [3], vote: 0}
"""
MISSING = "the package dp_accounting is missing; install ars again with all that it needs: pip install ."
CELLS = ["cohen-s0.5-seed0", "static_mask-s0.5-seed3"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "base.yaml").write_text(BASE)
    (folder / "tiny.yaml").write_text(SWEEP)
    return folder / "tiny.yaml"


@pytest.fixture(scope="module")
def undisturbed(written, tmp_path_factory):
    runs = tmp_path_factory.mktemp("undisturbed")
    assert main(["sweep", str(written), "--out", str(runs), "--device", "cpu"]) == 0
    return runs


def made(runs):
    """All that a sweep makes, without what it took."""
    return {
        run.name: (
            [dataclasses.replace(record, seconds=0.0) for record in merge(run / "certify/test").records],
            {key: tensor.tolist() for key, tensor in load_file(run / "model.safetensors").items()},
            [path.read_bytes() for path in run.glob("masks.npz")],
            {**vote(run), "seconds": 0.0},
        )
        for run in runs.glob("[!.]*")
    }


def vote(run):
    return json.loads((run / "vote.json").read_text()) if (run / "vote.json").exists() else {}


def test_a_sweep_makes_every_cell_and_skips_what_is_done(written, undisturbed, capsys):
    assert sorted(path.name for path in undisturbed.glob("[!.]*")) == CELLS
    assert [path.parent.name for path in undisturbed.glob("*/masks.npz")] == CELLS[1:]
    assert [path.parent.name for path in undisturbed.glob("*/pipeline.svg")] == CELLS[1:]
    assert (vote(undisturbed / CELLS[0])["images"], vote(undisturbed / CELLS[0])["draws"]) == (300, 10)
    assert vote(undisturbed / CELLS[1]) == {}
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    assert main(["sweep", str(written), "--out", str(undisturbed)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tiny: 2 cells, 2 done, 0 left",
        "  cohen-s0.5-seed0: done",
        "  static_mask-s0.5-seed3: done",
    ]
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")} == before


STEPPED = """
recipe: base.yaml
groups:
  - methods: [METHODS]
    sigma: [0.5]
    vote: 10
    override: {train.epochs: 2, train.checkpoint_minutes: 0, certify.examples: 11}
"""
WEIGHTS = ("checkpoint.safetensors", "model.safetensors")


@pytest.mark.parametrize(
    ("names", "after", "methods", "least"),
    [
        (WEIGHTS, False, ["cohen"], 4),
        pytest.param(None, True, ["cohen", "static_mask"], 60, marks=pytest.mark.slow),
    ],
)
def test_kills_at_any_write_change_nothing(written, tmp_path, monkeypatch, names, after, methods, least):
    """Each session dies at a write that none has died at, until one comes through."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import killed_sweep

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ars.experiments.certifying.local_engine", "sklearn.datasets"])
    stepped = written.with_name("stepped.yaml")
    stepped.write_text(STEPPED.replace("METHODS", ", ".join(methods)))
    arguments = ["sweep", str(stepped), "--device", "cpu", "--out"]
    deaths, killed, whole = (tmp_path / name for name in ("deaths", "killed", "whole"))
    while True:
        process = context.Process(
            target=killed_sweep.sweep_and_die, args=(deaths, names, after, [*arguments, str(killed)])
        )
        process.start()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            break
    assert process.exitcode == 0
    died = deaths.read_text().splitlines()
    assert len(died) >= least
    for method in methods:
        model = killed / f"{method}-s0.5-seed0" / "model.safetensors"
        assert [f"before {model} {how}" in died for how in ("new", "again")] == [True, True]  # trained, rounded
    assert main([*arguments, str(whole)]) == 0
    assert made(killed) == made(whole)


def test_a_sweep_ends_in_time_and_goes_on(written, tmp_path, capsys):
    long = written.with_name("long.yaml")
    long.write_text("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {train.epochs: 5000}}]")
    arguments = ["sweep", str(long), "--out", str(tmp_path), "--device", "cpu"]
    began = time.monotonic()
    assert main([*arguments, "--minutes", "0.1"]) == 0
    assert time.monotonic() - began < 30  # of hours; how close to the end is test_budget's
    output = capsys.readouterr().out
    assert "0.1 min are up; run the same command again to go on from here" in output
    assert (tmp_path / "cohen-s1-seed0" / "checkpoint.safetensors").exists()
    log = tmp_path / "cohen-s1-seed0" / "train.jsonl"
    epochs = len(log.read_text().splitlines()) if log.exists() else 0  # a busy machine may not get that far
    assert main([*arguments, "--plan"]) == 0
    assert f"cohen-s1-seed0: train {5000 - epochs} epochs, certify 12 images" in capsys.readouterr().out
    assert main([*arguments, "--minutes", "0"]) == 0
    assert "[1/1]" not in capsys.readouterr().out


def test_a_first_shard_that_would_end_too_late_is_not_begun(written, undisturbed, tmp_path, monkeypatch):
    cell, asked = read_sweep(written).cells[0], []
    run = shutil.copytree(undisturbed / cell.name, tmp_path / cell.name)
    shutil.rmtree(run / "certify")

    def certify(request, device, *, enough, over):
        asked.append((device, enough(), over()))
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "certify_with_progress", certify)
    for seconds in (10.0, 0.1):  # an image, of which a shard has ten
        times = Times([], [Figure("cohen", None, epoch=None, image=seconds, vote=None)])
        with pytest.raises(KeyboardInterrupt):
            sweep.make_cell(cell, run, "cpu", Budget(1.0), times)
    assert asked == [("cpu", True, True), ("cpu", False, False)]


def test_a_shard_that_takes_longer_than_there_is_time_is_given_up(written, undisturbed, tmp_path, capsys, monkeypatch):
    run = shutil.copytree(undisturbed / CELLS[0], tmp_path / CELLS[0])
    shutil.rmtree(run / "certify")
    monkeypatch.setattr("ars.experiments.certifying.local_engine.TOLD_SECONDS", 0.0)
    monkeypatch.setattr(Budget, "over", lambda budget: setattr(budget, "spent", True) or True)
    arguments = ["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]
    assert main([*arguments, "--minutes", "60"]) == 0
    assert "60 min are up; run the same command again" in capsys.readouterr().out
    assert not [*run.glob("certify/test/shard-*.jsonl")]
    monkeypatch.undo()
    assert main(arguments) == 0
    assert made(tmp_path)[CELLS[0]] == made(undisturbed)[CELLS[0]]


def test_the_device_that_was_asked_for_is_looked_at_once_and_is_every_cells(written, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("ars.experiments.device.choose_device", asked.append)
    monkeypatch.setattr(sweep, "make_cell", lambda cell, folder, device, *_: asked.append((folder.name, device)))
    assert main(["sweep", str(written), "--out", str(tmp_path / "runs"), "--device", "cuda:1"]) == 0
    assert asked == ["cuda:1", *((name, "cuda:1") for name in CELLS)]


def test_cells_train_their_starts_beside_them_for_others_to_share(written, tmp_path, monkeypatch):
    seen = []

    def train_run(recipe, folder, **how):
        seen.append((folder, how["starts"]))
        raise ValueError("not now")

    monkeypatch.setattr("ars.experiments.training.train_run", train_run)
    assert main(["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]) == 1
    assert seen == [(tmp_path / name, tmp_path) for name in CELLS]


def test_a_benchmark_is_opened_once(written, tmp_path, monkeypatch):
    from ars.experiments import keeping

    opened = []
    monkeypatch.setattr(keeping, "open_benchmark", lambda *what: opened.append(what) or open_benchmark(*what))
    assert main(["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]) == 0
    assert [(data.kind, str(device)) for data, device in opened] == [("digits", "cpu")]
    keeping.kept_benchmark(*opened[0])
    assert len(opened) == 2  # after the sweep nothing is kept


def test_two_sweeps_do_not_share_a_folder(written, tmp_path, capsys):
    arguments = ["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]
    with alone_in(tmp_path, "sweep"):
        assert main(arguments) == 2
        assert f"another ars sweep works in {tmp_path}; wait until it ends" in capsys.readouterr().err
        assert main([*arguments, "--plan"]) == 0
    assert [path.name for path in tmp_path.glob("[!.]*")] == []
    (tmp_path / "file").touch()
    capsys.readouterr()
    assert main(["sweep", str(written), "--out", str(tmp_path / "file")]) == 2
    output = capsys.readouterr()
    assert "file is a file, where the folder of the runs was expected; name another" in output.err
    assert output.out == ""


def test_sigterm_ends_a_sweep_as_ctrl_c_does_also_between_its_steps(written, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ars.experiments.weights.round_weights", lambda path: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]) == 130
    output = capsys.readouterr()
    assert "run the same command again to go on from here: ars sweep" in output.err
    assert "cohen-s0.5-seed0: round, certify 12 images" in output.out.split("2 cells, 0 done, 2 left")[-1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize("last", ["model.safetensors", "shard-00001.jsonl", "vote.json"])
def test_a_signal_in_the_last_piece_of_a_step_ends_the_sweep_after_it(written, tmp_path, monkeypatch, last, number):
    """There is nothing left of the step that could be stopped, but of the sweep there is."""
    sent = []

    def put(temporary, path):
        if path.name == last and not sent:
            sent.append(path)
            os.kill(os.getpid(), number)
        temporary.replace(path)

    monkeypatch.setattr("ars.certification.writing.whole.__wrapped__.__defaults__", (put,))
    command = ["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]
    assert main(command) == 130
    assert list(tmp_path.glob(f"**/{last}")) == sent
    assert not (tmp_path / "static_mask-s0.5-seed3").exists()
    assert main(command) == 0


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_ctrl_c_says_how_to_go_on(written, tmp_path, number):
    long = written.with_name("longer.yaml")
    long.write_text("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {train.epochs: 5000}}]")
    command = [sys.executable, "-m", "ars.cli", "sweep", str(long), "--out", str(tmp_path), "--device", "cpu"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "cohen-s1-seed0" / "train.jsonl").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(number)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "run the same command again to go on from here: ars sweep" in errors
    assert "1 cells, 0 done, 1 left" in output
    assert (tmp_path / "cohen-s1-seed0" / "checkpoint.safetensors").exists()


def test_a_cell_that_fails_is_reported_and_the_others_go_on(written, tmp_path, capsys):
    path = written.with_name("failing.yaml")
    path.write_text(
        """
recipe: base.yaml
groups:
  - {methods: [cohen], sigma: [0.5], seeds: [7], override: {train.classifier.lr: 1.0e+30}}
  - {methods: [cohen], sigma: [0.5], vote: 0}
"""
    )
    assert main(["sweep", str(path), "--out", str(tmp_path), "--device", "cpu"]) == 1
    output = capsys.readouterr()
    assert "ars: cohen-s0.5-seed7: the loss is no longer a number" in output.err
    assert "ars: 1 of 2 cells failed" in output.err
    assert "2 cells, 1 done, 1 left" in output.out
    assert "  cohen-s0.5-seed0: done" in output.out


@pytest.mark.parametrize("method", ["unicr", "cohen"])
def test_a_missing_package_is_told_before_anything_is_trained(written, tmp_path, capsys, monkeypatch, method):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.common", None)
    path = written.with_name("missing.yaml")
    cells = "{methods: [cohen, unicr], sigma: [0.5], override: {beta: 2.345}, vote: 0}"
    path.write_text(f"recipe: base.yaml\ngroups: [{cells}]")
    runs = tmp_path / "runs"
    assert main(["sweep", str(path), "--out", str(runs), "--device", "cpu"]) == 2
    assert capsys.readouterr().err == f"ars: {MISSING}\n"
    assert not runs.exists()
    train = ["train", str(written.with_name("base.yaml")), f"--method={method}", "--beta=2.345", "--device=cpu"]
    assert main([*train, "--out", str(runs)]) == (2 if method == "unicr" else 0)
    assert runs.exists() == (method == "cohen")


def test_more_images_than_there_are_are_refused_before_a_cell_is_trained(written, tmp_path, capsys):
    path = written.with_name("many.yaml")
    path.write_text("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {certify.examples: 999}}]")
    assert main(["sweep", str(path), "--out", str(tmp_path), "--device", "cpu"]) == 1
    assert "cohen-s1-seed0: digits on photographs has 300 test images" in capsys.readouterr().err
    assert not (tmp_path / "cohen-s1-seed0").exists()


def test_the_next_attempt_goes_on_where_a_cell_failed(written, undisturbed, tmp_path, capsys, monkeypatch):
    arguments = ["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]
    with monkeypatch.context() as broken:
        broken.setattr("ars.experiments.certifying.job.write_shard", fail_at(2, shards.write_shard))
        assert main(arguments) == 1
    output = capsys.readouterr()
    assert "RuntimeError: no room on the device" in output.err
    assert "cohen-s0.5-seed0: certify 2 images, vote" in output.out
    assert main(arguments) == 0
    assert made(tmp_path) == made(undisturbed)


def fail_at(number, function):
    calls = count(1)

    def call(*arguments):
        if next(calls) == number:
            raise RuntimeError("no room on the device")
        return function(*arguments)

    return call


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("recipe: base.yaml\ncolour: red", "there is no key colour"),
        ("recipe: base.yaml\ngroups: [{sigma: [1]}]", "methods"),
        ("recipe: none.yaml\ngroups: [{methods: [cohen], sigma: [1]}]", "there is no recipe at"),
    ],
)
def test_a_bad_sweep_file_gets_one_sentence_and_leaves_nothing_behind(written, tmp_path, capsys, text, words):
    path = written.with_name("bad.yaml")
    path.write_text(text)
    for command in (["sweep", str(path), "--out", str(tmp_path / "runs")], ["pack", str(path), "--runs=x", "--out=y"]):
        assert main(command) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert line.startswith("ars: ")
        assert words in line
    assert main(["sweep", str(tmp_path / "nowhere.yaml"), "--out", str(tmp_path / "runs")]) == 2
    assert "there is no sweep file at" in capsys.readouterr().err
    assert main(["sweep", str(written), "--out", str(tmp_path / "runs"), "--device", "nope"]) == 2
    assert "cannot use the device 'nope'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_one_of_several_processes_is_refused(written, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["sweep", str(written), "--out", str(tmp_path)]) == 2
    assert "ars sweep is one process, not rank 1 of 2" in capsys.readouterr().err


def test_what_is_packed_can_be_certified_again(written, undisturbed, tmp_path, capsys):
    assert main(["pack", str(written), "--runs", str(undisturbed), "--out", str(tmp_path)]) == 0
    assert f"packed 2 of 2 cells into {tmp_path / 'tiny'}" in capsys.readouterr().out
    packed = tmp_path / "tiny"
    assert [name for name in CELLS if (packed / name / "model.safetensors").exists()] == CELLS[:1]
    again = ["certify", str(packed / CELLS[0]), "--name", "again", "--device", "cpu"]
    assert main(again) == 0
    records = [dataclasses.replace(it, seconds=0.0) for it in merge(packed / CELLS[0] / "certify/again").records]
    assert records == made(undisturbed)[CELLS[0]][0]
    text = b"".join(path.read_bytes() for path in packed.rglob("*.*") if path.suffix in (".json", ".yaml", ".jsonl"))
    assert str(tmp_path).encode() not in text
    assert str(undisturbed).encode() not in text
    assert main(["pack", str(written), "--runs", str(tmp_path / "none"), "--out", str(tmp_path / "x")]) == 2
    assert "no cell of tiny is finished" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").touch()
    assert main(["pack", str(written), "--runs", str(undisturbed), "--out", str(tmp_path / "file")]) == 2
    assert "is a file; choose a folder" in capsys.readouterr().err


def test_another_sweep_of_the_same_name_does_not_replace_what_is_packed(written, undisturbed, tmp_path, capsys):
    pack = ["pack", str(written), "--runs", str(undisturbed), "--out", str(tmp_path / "results")]
    assert main(pack) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*.*") if path.is_file()}
    other = tmp_path / written.name
    shutil.copy(written.with_name("base.yaml"), tmp_path)
    group = "{methods: [cohen], sigma: [0.5], vote: 10, override: {train.max_steps: 1}}"
    other.write_text(f"recipe: base.yaml\ngroups: [{group}]")
    runs = ["--runs", str(tmp_path / "runs")]
    assert main(["sweep", str(other), "--out", runs[1], "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["pack", str(other), *runs, "--out", str(tmp_path / "results")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"ars: {tmp_path / 'results/tiny' / CELLS[0]} holds a run of another recipe")
    assert output.err.endswith("; remove it, or choose another folder with --out\n")
    assert {path: path.read_bytes() for path in before} == before


def test_cells_that_the_sweep_file_does_not_name_stay_and_are_told(written, undisturbed, tmp_path, capsys):
    pack = ["--runs", str(undisturbed), "--out", str(tmp_path / "results")]
    assert main(["pack", str(written), *pack]) == 0
    assert "left as they are" not in capsys.readouterr().out
    fewer = tmp_path / written.name
    shutil.copy(written.with_name("base.yaml"), tmp_path)
    fewer.write_text("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [0.5], vote: 10}]")
    assert main(["pack", str(fewer), *pack]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"left as they are, since {fewer} does not name them: {CELLS[1]}"
    assert (tmp_path / "results/tiny" / CELLS[1] / "recipe.yaml").exists()


def test_a_sweep_makes_what_is_not_packed_yet(written, undisturbed, tmp_path, capsys):
    assert main(["pack", str(written), "--runs", str(undisturbed), "--out", str(tmp_path / "results")]) == 0
    elsewhere = ["sweep", str(written), "--out", str(tmp_path / "runs"), "--packed", str(tmp_path / "results")]
    capsys.readouterr()
    assert main(elsewhere) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"  {name}: done, packed" for name in CELLS]
    assert not (tmp_path / "runs").exists()
    (tmp_path / "results/tiny" / CELLS[0] / "recipe.yaml").unlink()
    assert main([*elsewhere, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [f"  {CELLS[0]}: done", f"  {CELLS[1]}: done, packed"]
    assert [path.name for path in (tmp_path / "runs").glob("[!.]*")] == CELLS[:1]


def test_packed_results_that_are_not_there_are_told(written, tmp_path, capsys):
    assert main(["sweep", str(written), "--out", str(tmp_path / "runs"), "--packed", str(tmp_path / "none")]) == 2
    assert f"there is no folder {tmp_path / 'none'}; --packed names one" in capsys.readouterr().err


def test_vote_prints_the_accuracy_that_it_keeps(undisturbed, capsys):
    run = undisturbed / CELLS[0]
    kept = (run / "vote.json").read_text()
    assert main(["vote", str(run), "--draws", "10", "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(kept)
    assert main(["vote", str(run), "--draws", "10", "--device", "cpu"]) == 0
    assert f"of 10 draws is right on {json.loads(kept)['accuracy']:.2%} of 300 test images" in capsys.readouterr().out
    assert (run / "vote.json").read_text() == kept
    assert main(["vote", str(run / "nowhere")]) == 2
