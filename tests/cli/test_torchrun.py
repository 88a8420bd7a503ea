"""Training under torchrun as its users meet it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ars.cli import main
from ars.training.checkpoint import load_tensors

from .test_cli import TINY

RECIPE = Path(__file__).parents[2] / "recipes" / "digits.yaml"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "ars.cli"]


def start(*arguments):
    return subprocess.Popen([*TORCHRUN, "train", *arguments], stderr=subprocess.PIPE, text=True)


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_processes_train_the_embedded_benchmark_as_well_as_one(tmp_path, seed):
    """Within 3 points of accuracy on all validation images, as the log of the last epoch says."""
    options = [str(RECIPE), f"--seed={seed}", "--device=cpu"]
    accuracies = {}
    for name, command in (("one", [sys.executable, "-m", "ars.cli"]), ("two", TORCHRUN)):
        subprocess.run([*command, "train", *options, "--out", str(tmp_path / name)], check=True)
        lines = (tmp_path / name / "train.jsonl").read_text().splitlines()
        accuracies[name] = json.loads(lines[-1])["validation_accuracy"]
    assert abs(accuracies["one"] - accuracies["two"]) <= 0.03, accuracies
