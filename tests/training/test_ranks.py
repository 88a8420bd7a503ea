"""Two processes train as one would: under gloo, on a network without what depends on how a batch is cut."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import ars
from ars.smoothing.mechanism import Rows
from ars.tensors import load_tensors
from ars.training.loop import Interrupted, step_seed
from ars.training.ranks import AcceleratedRanks, Ranks
from ars.training.settings import TrainSettings

from .two_ranks import FEW, MANY, Spare, make_trainer


class Two(Ranks):
    def __init__(self, rank, size=2):
        self.rank, self.size = rank, size


def test_the_rows_of_all_ranks_are_the_batch():
    rows = [list(range(12))[Two(rank, 3).rows] for rank in range(3)]
    assert rows == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    generator = torch.Generator()
    assert Two(1, 3).noise(generator) == Rows(generator, 1, 3)
    assert Ranks().noise(generator) is generator


# 6 images in 4 parts would be 3 parts, and 3/4 of the gradient
@pytest.mark.parametrize(("batch", "size", "accumulate", "take"), [(128, 3, 1, 126), (2, 4, 1, 4), (12, 2, 4, 8)])
def test_a_batch_that_cannot_be_shared_evenly_is_refused_with_a_way_out(batch, size, accumulate, take):
    settings = TrainSettings(batch_size=batch, accumulate=accumulate)
    Ranks().check(settings)
    with pytest.raises(ValueError, match=f"use {take}"):
        Two(0, size).check(settings)


def test_the_global_generator_that_dropout_draws_from_is_seeded_by_step_and_rank(tmp_path):
    seeds = []

    class Watched(nn.Sequential):
        def forward(self, x):
            seeds.append(torch.initial_seed())
            return super().forward(x)

    trainer = make_trainer(tmp_path / "run", Two(0), FEW, Watched)
    for rank in range(2):
        trainer.ranks = Two(rank)
        with pytest.raises(Interrupted):
            trainer.run(stop=lambda: True)
    assert seeds == [step_seed(0, rank, purpose=1, rank=rank) for rank in range(2)]  # a step each
    assert step_seed(0, 0, purpose=1) == seeds[0]
    assert len({step_seed(0, 5, purpose=1, rank=rank) for rank in range(8)}) == 8


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes left: a folder."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    script = Path(__file__).parent / "two_ranks.py"
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    errors = [process.communicate(timeout=200)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    return folder


def said(folder, rank):
    return json.loads((folder / f"rank-{rank}.json").read_text())


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    trainer = make_trainer(tmp_path_factory.mktemp("one") / "run", Ranks())
    trainer.run()
    return trainer


def test_two_ranks_end_in_the_weights_of_one(two, one):
    first, second = (load_tensors(two / f"weights-{rank}.safetensors")[0] for rank in range(2))
    expected = one.model.state_dict()
    fresh = make_trainer(two / "fresh", Ranks()).model.state_dict()
    for name in first:
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], expected[name], rtol=1e-3, atol=1e-5)
    assert max(float((fresh[name] - expected[name]).abs().max()) for name in first) > 1e-2  # training moved them


@pytest.mark.parametrize("name", [*MANY, "spare"])
def test_two_ranks_end_in_the_weights_of_one_whatever_the_recipe_asks_for(two, tmp_path, name):
    """Spare is a network with a parameter that gets no gradient."""
    network = Spare if name == "spare" else nn.Sequential
    one = make_trainer(tmp_path / "run", Ranks(), MANY.get(name, FEW), network)
    one.run()
    tensors, _ = load_tensors(two / f"{name}.safetensors")
    for key, tensor in one.model.state_dict().items():
        torch.testing.assert_close(tensors[key], tensor, rtol=1e-3, atol=1e-5)
    if name == "spare":
        assert torch.equal(tensors["classifier.spare"], torch.ones(3))


def test_the_log_is_that_of_one_process(two, one):
    mine, theirs = (json.loads(path.read_text()) for path in (one.log, two / "finished" / "train.jsonl"))
    for name in ("loss", "accuracy", "validation_accuracy", "mean_square_mask"):
        assert mine[name] == pytest.approx(theirs[name], abs=0.01)


def test_a_signal_to_one_rank_stops_both_at_the_same_step_and_both_go_on_from_there(two, one):
    steps = {said(two, rank)["stopped"] for rank in range(2)}
    assert len(steps) == 1
    assert 2 <= steps.pop() < 10
    log = (two / "two" / "train.jsonl").read_text().splitlines()
    assert len(log) == 1
    assert json.loads(log[0])["loss"] == pytest.approx(json.loads(one.log.read_text())["loss"], abs=1e-3)


def test_a_checkpoint_of_two_ranks_goes_on_in_one_process_and_ends_in_the_same_weights(two, one):
    trainer = make_trainer(two / "two", Ranks())
    tensors, about = load_tensors(trainer.checkpoint)
    assert trainer.step == about["step"] == said(two, 0)["stopped"]
    assert not [name for name in tensors if "module." in name]
    trainer.run()
    for name, tensor in trainer.model.state_dict().items():
        torch.testing.assert_close(tensor, one.model.state_dict()[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("trouble", "where"),
    [
        ("poisoned", "the loss .* step 4 "),
        ("unfit", "the mask .* step 10 "),
        ("sync_batchnorm", ".*sync_batchnorm needs GPUs"),
    ],
)
def test_what_is_wrong_in_one_rank_is_named_by_all(two, trouble, where):
    first, second = (said(two, rank)[trouble] for rank in range(2))
    assert first == second
    assert re.match(where, first)


def test_the_run_of_two_ranks_is_that_of_one(two):
    assert not any(module.training for module in ars.load(two / "run").modules())
    assert not (two / "run" / "checkpoint.safetensors").exists()


def test_shared_batch_normalisation_keeps_names_and_the_parameters_that_the_optimisers_hold():
    ranks = object.__new__(AcceleratedRanks)
    ranks.accelerator, ranks.options = SimpleNamespace(prepare=lambda module: module), SimpleNamespace()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    names, parameters = list(network.state_dict()), list(network.parameters())
    wrapped = ranks.wrap(network, TrainSettings(sync_batchnorm=True))
    assert isinstance(wrapped[1], nn.SyncBatchNorm)
    assert list(wrapped.state_dict()) == names
    assert all(a is b for a, b in zip(wrapped.parameters(), parameters, strict=True))
    assert type(ranks.wrap(nn.Sequential(nn.BatchNorm2d(4)), TrainSettings())[0]) is nn.BatchNorm2d
