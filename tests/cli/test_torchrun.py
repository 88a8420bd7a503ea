"""Training under torchrun as its users meet it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ars.cli import main
from ars.experiments.run import load_run
from ars.training.checkpoint import load_tensors

from .test_cli import TINY

RECIPE = Path(__file__).parents[2] / "recipes" / "digits.yaml"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "ars.cli"]


def start(*arguments):
    return subprocess.Popen([*TORCHRUN, "train", *arguments], stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_sigterm_to_torchrun_saves_once_and_all_ranks_leave_in_order(tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--out", str(run), *TINY, "--train.epochs=1000", "--device=cpu"]
    process = start(*options)
    for line in process.stderr:
        if ": step " in line:
            break
    time.sleep(0.5)  # in the middle of a step
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert errors.count("interrupted; run the same command again") == 1
    assert "Traceback" not in errors.split("torch/distributed")[0]
    tensors, about = load_tensors(run / "checkpoint.safetensors")
    assert about["step"] > 0
    assert not [name for name in tensors if "module." in name]
    assert not [path.name for path in run.iterdir() if path.name.endswith(".part")]
    assert main(["train", *options, "--train.batch_size=512"]) == 2  # its folder is taken, as ever
    assert "another recipe" in capsys.readouterr().err


def accuracy(run, draws=50):
    """Of the vote of some draws, on every test image."""
    _, benchmark, model = load_run(run, torch.device("cpu"))
    images, labels = benchmark.examples("test", range(benchmark.size("test")))
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        votes = torch.stack([model(images, generator).argmax(dim=1) for _ in range(draws)])
    return float((votes.mode(dim=0).values == labels).float().mean())


@pytest.mark.slow
def test_two_processes_train_the_embedded_benchmark_as_well_as_one(tmp_path):
    """The mean over three seeds is within three points."""
    means = {}
    for name, command in (("one", [sys.executable, "-m", "ars.cli"]), ("two", TORCHRUN)):
        runs = [tmp_path / f"{name}-{seed}" for seed in range(3)]
        for seed, run in enumerate(runs):
            options = [str(RECIPE), f"--seed={seed}", "--device=cpu", "--out", str(run)]
            subprocess.run([*command, "train", *options], check=True)
        means[name] = sum(map(accuracy, runs)) / len(runs)
    assert abs(means["one"] - means["two"]) <= 0.03, means
