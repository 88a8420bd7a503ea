import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ars.experiments.build import build_model
from ars.experiments.recipe_file import read_recipe
from ars.kernels.training import TrainedResNet, TrainedUNet, with_kernels
from ars.methods import cohen
from ars.models import cifar_resnet
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
    patched = make_model("cohen")
    patched.classifier[2].forward = lambda x: x if random.random() < 0.5 else -x
    assert not replayable(patched)


def test_a_norm_that_counts_its_batches_is_not_captured():
    model = make_model("cohen")
    model.classifier.insert(2, nn.BatchNorm2d(3, momentum=None))
    assert not replayable(model)


@pytest.fixture
def on_gpu(monkeypatch):
    """A model that says it is on a GPU, and a marker for what the kernels would make of it."""
    model = make_model("cohen")
    monkeypatch.setattr(model, "parameters", lambda: iter([SimpleNamespace(device=torch.device("cuda"))]))
    monkeypatch.setattr(speed, "with_kernels", lambda it, usable: ("kernels", it))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
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


def test_a_gpu_without_bf16_of_its_own_gets_no_kernels(on_gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert fastest(on_gpu, "bfloat16", steps=10_000, alone=True) == (on_gpu, GraphedStepper)


@pytest.mark.parametrize(
    ("change", "kernels"),
    [
        (lambda net: None, True),
        (lambda net: setattr(net, "conv1", nn.Conv2d(3, 16, 5, padding=2)), False),
        (lambda net: setattr(net.layer1[0], "conv2", nn.Conv2d(16, 16, 3, padding=1)), False),
        (lambda net: setattr(net, "forward", lambda x: x.flatten(1)[:, :10]), False),
    ],
    ids=["as made", "another filter", "a bias", "another forward"],
)
def test_a_network_that_was_changed_gets_no_kernels(monkeypatch, change, kernels):
    monkeypatch.setattr("ars.kernels.training.can_compile", lambda: True)
    net = cifar_resnet(8, 10)
    change(net)
    twin = with_kernels(cohen(net, sigma=0.5), usable=speed.known)
    assert (type(twin.classifier) is TrainedResNet) == kernels


def test_networks_of_the_recipe_for_backgrounds_get_kernels(monkeypatch):
    monkeypatch.setattr("ars.kernels.training.can_compile", lambda: True)
    recipe = read_recipe(Path(__file__).parents[2] / "recipes" / "cifar_backgrounds.yaml", ["--data.size=96"])
    inputs = SimpleNamespace(shape=(3, 96, 96), moments=lambda: ([0.5] * 3, [0.25] * 3), class_names=range(10))
    model = build_model(recipe, inputs, torch.device("cpu"))
    parts = {type(part) for part in with_kernels(model, usable=speed.known).modules()}
    assert {TrainedResNet, TrainedUNet} <= parts


def test_several_processes_and_code_of_someone_else_step_as_it_stands(on_gpu):
    assert fastest(on_gpu, "bfloat16", steps=10_000, alone=False) == (on_gpu, Stepper)
    on_gpu.classifier.insert(2, Coin())
    assert fastest(on_gpu, "bfloat16", steps=10_000, alone=True) == (on_gpu, Stepper)


def test_a_cpu_steps_as_it_stands():
    model = make_model("cohen")
    assert fastest(model, "bfloat16", steps=10_000, alone=True) == (model, Stepper)
