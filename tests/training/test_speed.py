import random
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ars.training import speed
from ars.training.speed import fastest, replayable
from ars.training.stepping import GraphedStepper, Stepper

from .tiny import METHODS, make_model


@pytest.mark.parametrize("method", METHODS)
def test_our_models_can_be_replayed(method):
    assert replayable(make_model(method))


class Coin(nn.Module):
    """Tosses a coin of Python's, as some networks drop layers: a graph would keep the first toss for ever."""

    def forward(self, x):
        return x if random.random() < 0.5 else -x


def test_code_and_hooks_of_someone_else_are_run_at_every_step():
    model = make_model("cohen")
    model.classifier[2].register_forward_hook(lambda *_: None)
    assert not replayable(model)
    other = make_model("cohen")
    other.classifier.insert(2, Coin())
    assert not replayable(other)


@pytest.fixture
def on_gpu(monkeypatch):
    """A model that says it is on a GPU, and a marker for what the kernels would make of it."""
    model = make_model("cohen")
    monkeypatch.setattr(model, "parameters", lambda: iter([SimpleNamespace(device=torch.device("cuda"))]))
    monkeypatch.setattr(speed, "with_kernels", lambda it: ("kernels", it))
    return model


@pytest.mark.parametrize(
    ("steps", "precision", "kernels", "stepper"),
    [
        (49, "bfloat16", False, Stepper),
        (50, "bfloat16", False, GraphedStepper),
        (399, "bfloat16", False, GraphedStepper),
        (400, "bfloat16", True, GraphedStepper),
        (400, "float32", False, GraphedStepper),
    ],
)
def test_start_up_is_paid_for_where_enough_steps_follow(on_gpu, steps, precision, kernels, stepper):
    expected = ("kernels", on_gpu) if kernels else on_gpu
    assert fastest(on_gpu, precision, steps=steps, alone=True) == (expected, stepper)


def test_several_processes_and_code_of_someone_else_step_as_it_stands(on_gpu):
    assert fastest(on_gpu, "bfloat16", steps=10_000, alone=False) == (on_gpu, Stepper)
    on_gpu.classifier.insert(2, Coin())
    assert fastest(on_gpu, "bfloat16", steps=10_000, alone=True) == (on_gpu, Stepper)


def test_a_cpu_steps_as_it_stands():
    model = make_model("cohen")
    assert fastest(model, "bfloat16", steps=10_000, alone=True) == (model, Stepper)
