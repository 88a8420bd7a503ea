import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ars.kernels.trainable import TrainedResNet, TrainedUNet, with_kernels
from ars.methods.cohen import cohen
from ars.models import cifar_resnet
from ars.recipes.build import build_model
from ars.recipes.read import read_recipe
from ars.training import step
from ars.training.loss import Objective
from ars.training.step import GraphedStepper, Stepper, fastest, replayable

from .conftest import training
from .tiny import METHODS, batch, equal, make_model, state


def mask_of(trainer):
    return trainer.model.mechanism.steps[1].mask


def test_every_tensor_of_a_frozen_classifier_stays_bit_for_bit_while_the_mask_learns(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run", frozen=True)
    classifier = trainer.model.classifier
    assert any(isinstance(module, nn.BatchNorm2d) for module in classifier.modules())
    before, mask_before, modes = state(classifier), state(mask_of(trainer)), []
    classifier.register_forward_pre_hook(lambda module, inputs: modes.append(module.training))
    trainer.run()
    assert equal(before, state(classifier))
    assert not any(modes)
    assert "classifier" not in trainer.optimizers
    after = state(mask_of(trainer))
    learned = [name for name, _ in mask_of(trainer).named_parameters()]
    assert learned
    assert not any(torch.equal(mask_before[name], after[name]) for name in learned)


def test_dropout_of_a_frozen_classifier_is_off_and_that_of_the_mask_on(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run", frozen=True)
    trainer.model.classifier.append(nn.Dropout(0.5))
    trainer.modes.set(0)
    assert not trainer.model.classifier[-1].training
    assert all(module.training for module in mask_of(trainer).modules())


def test_mask_only_epochs_train_the_mask_first_and_then_both(make_trainer, tmp_path):
    trainer = make_trainer(tmp_path / "run", training(mask_only_epochs=1))
    seen = {0: (state(trainer.model.classifier), state(mask_of(trainer)))}
    trainer.run(report=lambda at: seen.update({at.epoch: (state(trainer.model.classifier), state(mask_of(trainer)))}))
    assert equal(seen[0][0], seen[1][0])
    assert not equal(seen[0][1], seen[1][1])
    assert not any(torch.equal(a, seen[2][0][name]) for name, a in seen[1][0].items() if not name.startswith("0."))
    assert not equal(seen[1][1], seen[2][1])


def gradients(accumulate):
    """Of one step on a network without BatchNorm; chunks draw the whole batch's noise, 768 numbers an image."""
    torch.manual_seed(0)
    model = cohen(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 2)), sigma=0.5)
    optimizers = {"classifier": torch.optim.SGD(model.parameters(), lr=1e-30)}
    stepper = Stepper(Objective(model, "float32"), optimizers, accumulate=accumulate)
    loss, accuracy = stepper(*batch(0), torch.Generator().manual_seed(3), {"classifier": 1e-30})
    return [parameter.grad for parameter in model.parameters()], float(loss), float(accuracy)


@pytest.mark.parametrize("accumulate", [2, 8, 32])
def test_parts_add_up_to_the_gradient_of_the_whole(accumulate):
    whole, loss, accuracy = gradients(1)
    parts, loss_of_parts, accuracy_of_parts = gradients(accumulate)
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)
        assert one.abs().max() > 1e-3
    assert loss_of_parts == pytest.approx(loss, rel=1e-5)
    assert accuracy_of_parts == pytest.approx(accuracy)


def test_the_parts_of_a_batch_see_different_noise():
    torch.manual_seed(0)
    model = cohen(nn.Sequential(nn.Flatten(), nn.Linear(768, 2)), sigma=0.5)
    seen = []
    model.classifier.register_forward_pre_hook(lambda it, inputs: seen.append(inputs[0].detach()))
    optimizers = {"classifier": torch.optim.SGD(model.parameters(), lr=1e-30)}
    stepper = Stepper(Objective(model, "float32"), optimizers, accumulate=2)
    image, label = (part[:1].expand(4, *part.shape[1:]) for part in batch(0))
    stepper(image, label, torch.Generator().manual_seed(3), {"classifier": 1e-30})
    assert [len(part) for part in seen] == [2, 2]
    assert not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("method", METHODS)
def test_our_models_can_be_replayed(method):
    assert replayable(make_model(method))


class Coin(nn.Module):
    """Tosses a coin of Python's, as some networks drop layers: a graph would keep the first toss for ever."""

    def forward(self, x):
        return x if random.random() < 0.5 else -x


CHANGES = {
    "a hook": lambda classifier: classifier[2].register_forward_hook(lambda *_: None),
    "a module of someone else's": lambda classifier: classifier.insert(2, Coin()),
    "a patched forward": lambda classifier: setattr(classifier[2], "forward", Coin().forward),
    "a norm that counts its batches": lambda classifier: classifier.insert(2, nn.BatchNorm2d(3, momentum=None)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_graph_would_not_repeat_is_run_at_every_step(change):
    model = make_model("cohen")
    change(model.classifier)
    assert not replayable(model)


@pytest.mark.parametrize(
    ("changes", "kernels", "stepper"),
    [
        ({}, True, GraphedStepper),
        ({"steps": 399}, False, GraphedStepper),
        ({"steps": 50}, False, GraphedStepper),
        ({"steps": 49}, False, Stepper),
        ({"precision": "float32"}, False, GraphedStepper),
        ({"capability": (7, 5)}, False, GraphedStepper),
        ({"alone": False}, False, Stepper),
        ({"insert": Coin()}, False, Stepper),
        ({"device": "cpu"}, False, Stepper),
    ],
)
def test_start_up_is_paid_for_where_it_can_be_and_enough_steps_follow(monkeypatch, changes, kernels, stepper):
    how = {"steps": 400, "precision": "bfloat16", "alone": True, "device": "cuda", "capability": (9, 0), **changes}
    model, device, capability = make_model("cohen"), torch.device(how.pop("device")), how.pop("capability")
    if "insert" in how:
        model.classifier.insert(2, how.pop("insert"))
    monkeypatch.setattr(model, "parameters", lambda: iter([SimpleNamespace(device=device)]))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(step, "with_kernels", lambda it: ("kernels", it))
    precision = how.pop("precision")
    assert fastest(model, precision, **how) == (("kernels", model) if kernels else model, stepper)


@pytest.mark.parametrize(
    ("change", "kernels"),
    [
        (lambda net: None, True),
        (lambda net: setattr(net, "fc", nn.Linear(64, 7)), True),
        (lambda net: setattr(net, "conv1", nn.Conv2d(3, 16, 5, padding=2, bias=False)), False),
        (lambda net: setattr(net.layer1[0], "conv2", nn.Conv2d(16, 16, 3, padding=1)), False),
        (lambda net: setattr(net, "layer3", nn.Identity()), False),
        (lambda net: setattr(net, "layer1", nn.Identity()), False),
    ],
    ids=["as built", "another last layer", "another filter", "a bias", "a stage less", "no first stage"],
)
def test_a_network_with_other_layers_gets_no_kernels(monkeypatch, change, kernels):
    monkeypatch.setattr("ars.kernels.trainable.can_compile", lambda: True)
    net = cifar_resnet(8, 10)
    change(net)
    twin = with_kernels(cohen(net, sigma=0.5))
    assert (type(twin.classifier) is TrainedResNet) == kernels


def test_networks_of_the_recipe_for_backgrounds_get_kernels(monkeypatch):
    monkeypatch.setattr("ars.kernels.trainable.can_compile", lambda: True)
    recipe = read_recipe(Path("cifar_backgrounds"), ["--data.size=96"])
    inputs = SimpleNamespace(shape=(3, 96, 96), moments=lambda: ([0.5] * 3, [0.25] * 3), class_names=range(10))
    model = build_model(recipe, inputs, torch.device("cpu"))
    parts = {type(part) for part in with_kernels(model).modules()}
    assert {TrainedResNet, TrainedUNet} <= parts
