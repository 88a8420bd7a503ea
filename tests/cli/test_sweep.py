"""ars sweep as its users start it: killed, interrupted, out of time, with a cell that fails."""

import dataclasses
import json
import multiprocessing
import re
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

from ars.cli.main import main, sweep
from ars.data.benchmark import open_benchmark
from ars.runs import shards
from ars.runs.lock import locked
from ars.workflows.sweeps.file import Rough, read_sweep
from ars.workflows.sweeps.plan import Budget, Times, make_plan

from ..conftest import CPU, TINY, records_of
from ..workflows.sweeps.conftest import cell, sweep_of, voted
from .conftest import command, fill, signal_self, wait_for
from .swept import CELLS


@pytest.fixture
def line(written, tmp_path):
    return ["sweep", str(written), "--out", str(tmp_path), "--device", "cpu"]


def made(runs):
    """All that a sweep makes, without the time that it took."""
    return {
        run.name: (
            records_of(run),
            {key: tensor.tolist() for key, tensor in load_file(run / "model.safetensors").items()},
            [path.read_bytes() for path in run.glob("masks.npz")],
            {**vote(run), "seconds": 0.0},
        )
        for run in runs.glob("[!.]*")
        if not run.name.startswith("start-")
    }


def vote(run):
    return json.loads((run / "vote.json").read_text()) if (run / "vote.json").exists() else {}


def test_a_sweep_makes_every_cell_and_skips_what_is_done(written, undisturbed, printed):
    assert sorted(path.name for path in undisturbed.glob("[!.]*")) == CELLS
    for name in ("masks.npz", "pipeline.svg"):
        assert [path.parent.name for path in undisturbed.glob(f"*/{name}")] == CELLS[1:]
    assert (vote(undisturbed / CELLS[0])["images"], vote(undisturbed / CELLS[0])["draws"]) == (300, 10)
    assert vote(undisturbed / CELLS[1]) == {}
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    assert printed(["sweep", str(written), "--out", str(undisturbed)]).out.splitlines() == [
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
@pytest.mark.slow
def test_kills_at_any_write_change_nothing(written, tmp_path, monkeypatch, names, after, methods, least):
    """Each session dies at a write that none has died at, until one comes through."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    from swept import sweep_and_die

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ars.workflows.certify", "sklearn.datasets"])
    stepped = written.with_name("stepped.yaml")
    stepped.write_text(STEPPED.replace("METHODS", ", ".join(methods)))
    arguments = ["sweep", str(stepped), "--device", "cpu", "--out"]
    deaths, killed, whole = (tmp_path / name for name in ("deaths", "killed", "whole"))
    while True:
        process = context.Process(target=sweep_and_die, args=(deaths, names, after, [*arguments, str(killed)]))
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


def test_a_sweep_ends_in_time_and_resumes(written, tmp_path, printed):
    path = written.with_name("long.yaml")
    path.write_text("recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {train.epochs: 5000}}]")
    arguments = ["sweep", str(path), "--out", str(tmp_path), "--device", "cpu"]
    began = time.monotonic()
    assert "run the same command again" in printed([*arguments, "--minutes", "0.1"]).out
    assert time.monotonic() - began < 30  # of hours; tests of Budget say how close to the end
    assert (tmp_path / "cohen-s1-seed0" / "checkpoint.safetensors").exists()
    log = tmp_path / "cohen-s1-seed0" / "train.jsonl"
    epochs = len(log.read_text().splitlines()) if log.exists() else 0  # a busy machine may not get that far
    left = f"cohen-s1-seed0: train {5000 - epochs} epochs, certify 12 images"
    assert left in printed([*arguments, "--plan"]).out
    assert "making" not in printed([*arguments, "--minutes", "0"]).out


def test_a_first_shard_that_would_end_too_late_is_not_begun(written, undisturbed, tmp_path, monkeypatch):
    first, asked = read_sweep(written).cells[0], []
    run = shutil.copytree(undisturbed / first.name, tmp_path / first.name)
    shutil.rmtree(run / "certify")

    def certify(request, device, *, enough, over, **how):
        asked.append((device, enough(), over()))
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "certify_with_progress", certify)
    for seconds in (10.0, 0.1):  # an image, of which a shard has ten
        times = Times([], [Rough(("cohen",), image=seconds)])
        with pytest.raises(KeyboardInterrupt):
            sweep.make_cell(first, run, "cpu", Budget(1.0), times, open_benchmark)
    assert asked == [("cpu", True, True), ("cpu", False, False)]


def test_a_shard_that_takes_longer_than_there_is_time_is_given_up(undisturbed, line, tmp_path, monkeypatch, printed):
    run = shutil.copytree(undisturbed / CELLS[0], tmp_path / CELLS[0])
    shutil.rmtree(run / "certify")
    with monkeypatch.context() as slow:
        slow.setattr("ars.workflows.certify.REPORT_SECONDS", 0.0)
        slow.setattr(Budget, "over", lambda budget: setattr(budget, "spent", True) or True)
        assert "run the same command again" in printed([*line, "--minutes", "60"]).out
    assert not [*run.glob("certify/test/shard-*.jsonl")]
    assert main(line) == 0
    assert made(tmp_path)[CELLS[0]] == made(undisturbed)[CELLS[0]]


def test_cells_use_the_device_that_was_asked_for_and_train_their_starts_beside_them(line, tmp_path, monkeypatch):
    asked, seen = [], []

    def train_run(recipe, folder, *, device, starts, **how):
        seen.append((folder, device, starts))
        raise ValueError("not now")

    monkeypatch.setattr("ars.workflows.hardware.choose_device", lambda name, *_: asked.append(name) or CPU)
    monkeypatch.setattr("ars.workflows.train.train_run", train_run)
    assert main([*line[:-1], "cuda:1"]) == 1
    assert asked == 3 * ["cuda:1"]  # once before the first cell
    assert seen == [(tmp_path / name, CPU, tmp_path) for name in CELLS]


@pytest.mark.slow
def test_sweeps_share_a_folder_cell_by_cell(undisturbed, line, tmp_path, monkeypatch, refused):
    waited = []
    with ExitStack() as other:

        def wait(seconds):
            waited.append(sorted(path.name for path in tmp_path.glob("[!.]*")))
            other.close()

        other.enter_context(locked(tmp_path, "sweep", of=CELLS[0]))
        monkeypatch.setattr(sweep, "time", SimpleNamespace(sleep=wait))
        assert main(line) == 0
    assert waited == [[CELLS[1]]]  # first what is free, then what the other process has left
    assert made(tmp_path) == made(undisturbed)
    (tmp_path / "file").touch()
    assert "file is a file" in refused([*line[:3], str(tmp_path / "file")])


GROWING = """
recipe: growing.yaml
groups:
  - {methods: [cohen], sigma: [0.5], k: [24, 16], vote: 0}
  - {methods: [static_mask], sigma: [0.5], k: [16], vote: 0}
"""
OF_PHOTOS = """
data: {kind: folder, root: photos, workers: 0}
classifier: {width: 4}
mask: {width: 2}
train: {epochs: 2, batch_size: 8, precision: float32}
certify: {examples: 4, n_select: 20, n_estimate: 50, precision: float32}
start: {size: 8, epochs: 3, through: [16]}
"""
GROWN = ["cohen-k16-s0.5-seed0", "cohen-k24-s0.5-seed0", "static_mask-k16-s0.5-seed0"]


@pytest.fixture
def growing(tmp_path, monkeypatch):
    """A sweep of three cells that share a start; one of them is itself the start of the largest, which is first."""
    fill(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    (tmp_path / "growing.yaml").write_text(OF_PHOTOS)
    (tmp_path / "sweep.yaml").write_text(GROWING)
    return tmp_path / "sweep.yaml"


@pytest.mark.slow
def test_several_sweeps_in_one_folder_do_no_work_twice(growing, tmp_path):
    arguments = ["sweep", str(growing), "--device=cpu", "--out"]
    assert main([*arguments, str(tmp_path / "alone")]) == 0
    both = [command(*arguments, tmp_path / "shared") for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert made(tmp_path / "shared") == made(tmp_path / "alone")
    assert sorted(made(tmp_path / "shared")) == GROWN
    said = "".join(errors for _, errors in outputs)
    epochs = len(re.findall(r"epoch \d of \d: loss", said))
    assert epochs == 3 * 2 + 3  # two of each cell, three of the start
    assert said.count("photos: certifying") == 3


@pytest.mark.slow
def test_on_ray_cells_wait_for_their_start_and_make_the_same(growing, tmp_path):
    pytest.importorskip("ray")
    arguments = ["sweep", str(growing), "--device=cpu", "--out"]
    assert main([*arguments, str(tmp_path / "alone")]) == 0
    process = command(*arguments, tmp_path / "ray", "--engine=ray")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert made(tmp_path / "ray") == made(tmp_path / "alone")
    assert "3 of 3 cells" in errors
    assert len(re.findall(r"epoch \d of \d: loss", output + errors)) == 3 * 2 + 3


@pytest.mark.slow
def test_ctrl_c_on_ray_lets_the_workers_save(growing, tmp_path):
    pytest.importorskip("ray")
    long = growing.with_name("long.yaml")
    long.write_text(
        "recipe: growing.yaml\ngroups: [{methods: [cohen], sigma: [1], k: [8], override: {train.epochs: 9999}}]"
    )
    process = command("sweep", long, "--device=cpu", "--out", tmp_path, "--engine=ray")
    wait_for(process, "train.jsonl", under=tmp_path / "cohen-k8-s1-seed0")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "run the same command again to resume" in errors
    assert (tmp_path / "cohen-k8-s1-seed0" / "checkpoint.safetensors").exists()


def test_a_plan_times_what_was_never_made_and_writes_nothing(
    line, undisturbed, tmp_path, printed, refused, monkeypatch
):
    monkeypatch.setattr("ars.workflows.forecast.CERTIFY_SECONDS", 0.0)
    shutil.copytree(undisturbed / CELLS[0], tmp_path / CELLS[0])
    output = printed([*line, "--plan", "--on", "1", "2", "--price", "2"])
    assert "static_mask" in output.err  # the other kind of cell is finished
    assert "cohen" not in output.err
    assert "at most 840 draws for certification" in output.out
    *_, one, two = output.out.splitlines()
    assert (one.split()[0], two.split()[0]) == ("1", "2")
    assert one.split()[1:] == two.split()[1:]  # a single cell is left
    assert [path.name for path in tmp_path.glob("[!.]*")] == [CELLS[0]]
    assert "--plan" in refused([*line, "--price", "2"])


def test_sigterm_between_the_steps_ends_a_sweep_as_ctrl_c_does(line, capsys, monkeypatch):
    monkeypatch.setattr("ars.workflows.weights.round_weights", lambda path: signal_self(signal.SIGTERM))
    assert main(line) == 130
    output = capsys.readouterr()
    assert f"run the same command again to resume: ars {' '.join(line)}" in output.err
    assert "cohen-s0.5-seed0: round, certify 12 images" in output.out.split("2 cells, 0 done, 2 left")[-1]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "last",
    ["shard-00001.jsonl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("model.safetensors", "vote.json"))],
)
def test_a_signal_in_the_last_piece_of_a_step_ends_the_sweep_after_it(line, tmp_path, monkeypatch, last, number):
    """The step has no safe point left, but the sweep has more to do."""
    sent = []

    def put(temporary, path):
        if path.name == last and not sent:
            sent.append(path)
            signal_self(number)
        temporary.replace(path)

    monkeypatch.setattr("ars.atomic.whole.__wrapped__.__defaults__", (put,))
    assert main(line) == 130
    assert list(tmp_path.glob(f"**/{last}")) == sent
    assert not (tmp_path / CELLS[1]).exists()
    assert main(line) == 0


def test_a_cell_that_fails_is_reported_and_the_others_are_made(written, tmp_path, capsys):
    path = written.with_name("failing.yaml")
    path.write_text(
        """
recipe: base.yaml
groups:
  - {methods: [cohen], sigma: [0.5], seeds: [7], override: {train.classifier.lr: 1.0e+30}}
  - {methods: [cohen], sigma: [0.5], seeds: [8], override: {certify.examples: 999}}
  - {methods: [cohen], sigma: [0.5], vote: 0}
"""
    )
    assert main(["sweep", str(path), "--out", str(tmp_path), "--device", "cpu"]) == 1
    output = capsys.readouterr()
    assert "ars: cohen-s0.5-seed7: the loss" in output.err
    assert "ars: cohen-s0.5-seed8: digits on photographs has 300 test images" in output.err
    assert not (tmp_path / "cohen-s0.5-seed8").exists()  # refused before it is trained
    assert "2 of 3 cells failed" in output.err
    assert "3 cells, 1 done, 2 left" in output.out
    assert "  cohen-s0.5-seed0: done" in output.out


def test_the_next_attempt_resumes_where_a_cell_failed(undisturbed, line, tmp_path, capsys, monkeypatch):
    """And each of them opens the benchmark once, for all cells."""
    calls, opened = count(1), []
    monkeypatch.setattr("ars.data.benchmark.open_benchmark", lambda *what: opened.append(what) or open_benchmark(*what))

    def write(*arguments):
        if next(calls) == 2:
            raise RuntimeError("no room on the device")
        return shards.write_shard(*arguments)

    with monkeypatch.context() as broken:
        broken.setattr("ars.workflows.certify.write_shard", write)
        assert main(line) == 1
    output = capsys.readouterr()
    assert "RuntimeError: no room on the device" in output.err
    assert "cohen-s0.5-seed0: certify 2 images, vote" in output.out
    assert main(line) == 0
    assert made(tmp_path) == made(undisturbed)
    assert [(data.kind, str(device)) for data, device in opened] == 2 * [("digits", "cpu")]


@pytest.mark.parametrize("method", ["unicr", "cohen"])
def test_a_missing_package_is_told_before_anything_is_trained(written, tmp_path, monkeypatch, method, refused):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld.common", None)
    path = written.with_name("missing.yaml")
    path.write_text("recipe: base.yaml\ngroups: [{methods: [cohen, unicr], sigma: [0.5], override: {beta: 2.345}}]")
    runs = tmp_path / "runs"
    said = refused(["sweep", str(path), "--out", str(runs), "--device", "cpu"])
    assert "the package dp_accounting is missing" in said
    assert not runs.exists()
    train = ["train", str(written.with_name("base.yaml")), f"--method={method}", "--beta=2.345", "--device=cpu"]
    assert main([*train, "--out", str(runs)]) == (2 if method == "unicr" else 0)
    assert runs.exists() == (method == "cohen")


def test_a_bad_sweep_file_gets_one_sentence_and_leaves_nothing_behind(written, tmp_path, refused):
    path = written.with_name("bad.yaml")
    path.write_text("recipe: base.yaml\ncolour: red")
    for line in (["sweep", str(path), "--out", str(tmp_path / "runs")], ["pack", str(path), "--runs=x", "--out=y"]):
        assert "colour" in refused(line)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--device", "nope"], "'nope'"), (["--packed", "none"], "no folder none"), (["--minutes", "-1"], "--minutes")],
)
def test_a_request_that_makes_no_sense_leaves_nothing_behind(written, desk, refused, options, words):
    assert words in refused(["sweep", str(written), "--out", "runs", *options])
    assert list(desk.iterdir()) == []


def test_one_of_several_processes_is_refused(line, ranks, refused):
    ranks(WORLD_SIZE=2, RANK=1)
    assert "rank 1 of 2" in refused(line)


def test_the_machine_of_stated_times_is_named_until_a_cell_is_finished_here(run, tmp_path, trained):
    more = cell(name="next", recipe=dataclasses.replace(TINY, seed=1))
    stated = (Rough((TINY.method,), epoch=5.0, image=1.0, vote=2.0),)
    stated_on = sweep_of(tmp_path, cell(), more, rough=stated, rough_on="one H200")
    assert sweep.show(stated_on, make_plan(stated_on, tmp_path / "none")).splitlines()[0].endswith(" s on one H200")
    shutil.copytree(trained / "certify", run / "certify")
    voted(run)
    (run / "masks.npz").touch()
    assert " on one H200" not in sweep.show(stated_on, make_plan(stated_on, tmp_path))
