"""Trainings that are killed go on from their last checkpoint to the very weights of one that was not."""

import dataclasses
import multiprocessing
import signal
from pathlib import Path

import pytest

from ars.experiments.training import train_run

from .conftest import CPU, TINY

# saved at every meeting: after the steps 1, 3, ... and at the end of each epoch
OFTEN = dataclasses.replace(TINY, train=dataclasses.replace(TINY.train, epochs=2, checkpoint_minutes=0.0))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert train_run(OFTEN, folder, device=CPU)
    return folder


# three files are written before the first step; then checkpoints and, at the end of an epoch, a line of the log
@pytest.mark.parametrize(
    ("call", "moment"), [(("replace", False), 6), pytest.param(("fsync", True), 13, marks=pytest.mark.slow)]
)
def test_a_killed_training_ends_in_the_same_weights(undisturbed, tmp_path, monkeypatch, call, moment):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import dying

    run = tmp_path / "run"
    process = multiprocessing.get_context("spawn").Process(
        target=dying.train_and_die, args=(call, moment, OFTEN, run), kwargs={"device": CPU}
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (run / "checkpoint.safetensors").exists()
    assert not (run / "model.safetensors").exists()
    seen = []
    assert train_run(OFTEN, run, device=CPU, watch=seen.append)
    assert seen[0].step > 1  # it went on, and did not begin again
    assert (run / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()
    assert len((run / "train.jsonl").read_text().splitlines()) == 2
