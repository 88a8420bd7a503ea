"""Which networks run faster, and that the model itself stays as it is; on a CPU, where there are no fused kernels."""

from importlib import import_module

import pytest
import torch
from torch import nn

from ars.kernels.accelerate import FUSED, accelerate, compile_for, fuse, has_kernels
from ars.kernels.compiled import Half
from ars.models import CifarResNet, Normalize, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, minimum_variance


def around(classifier, mask=None):
    steps = [Gaussian(0.5), *([] if mask is None else [MaskedGaussian(0.5, mask)])]
    return SmoothedClassifier(compose(*steps), minimum_variance, classifier).eval()


def accelerated(model):
    return accelerate(model, torch.rand(1, 3, 16, 16), least=100)


class Own(nn.Module):
    """A user's network around parts, one of which is never there."""

    def __init__(self, **parts):
        super().__init__()
        self.missing = None
        for name, part in parts.items():
            self.add_module(name, part)
        self.register_module("empty", None)

    def forward(self, x):
        return x


def test_the_largest_known_networks_are_replaced_in_a_copy_that_shares_the_rest():
    head, own = nn.Sequential(nn.Linear(4, 4)), nn.LayerNorm(16)
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), Own(body=cifar_resnet(8, 4), norm=own, head=head))
    model = around(classifier, UNet(4))
    before = dict(model.named_modules())
    faster = accelerated(model)
    assert dict(model.named_modules()) == before
    halves = [name for name, part in faster.named_modules() if isinstance(part, Half)]
    assert halves == ["mechanism.steps.1.mask", "classifier.1.body", "classifier.1.head"]
    assert faster.classifier[1].norm is own
    assert faster.classifier[0] is classifier[0]
    assert faster.mechanism.steps[0] is model.mechanism.steps[0]
    assert (faster.combine, faster.mechanism.sigmas) == (model.combine, model.mechanism.sigmas)


def test_every_fused_form_is_where_the_table_says():
    for fused in FUSED.values():
        module, _, name = fused.form.partition(":")
        assert issubclass(getattr(import_module(module), name), nn.Module)


class Mine(UNet):
    """A subclass, whose forward pass may be another."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: Own(),
        lambda: nn.Sequential(nn.Flatten(), nn.Sigmoid()),
        lambda: nn.DataParallel(cifar_resnet(8, 4)),
        lambda: cifar_resnet(8, 4).bfloat16(),
        lambda: UNet(4).half(),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 4)).double(),
    ],
    ids=["user's", "other layers", "several gpus", "bf16", "float16", "float64"],
)
def test_what_is_not_known_runs_as_it_is(make):
    assert accelerated(around(make())) is None


def test_a_subclass_runs_its_own_forward_pass_around_known_parts():
    model = around(Mine(4))
    faster = accelerated(model)
    assert type(faster.classifier) is Mine
    assert faster.classifier is not model.classifier
    assert any(isinstance(part, Half) for part in faster.classifier.modules())


def test_networks_of_our_classes_have_kernels_in_the_sizes_that_these_know():
    assert all(has_kernels(network) for network in (cifar_resnet(8, 4), CifarResNet(2, 10), resnet50(4), UNet(32)))
    assert not any(has_kernels(network) for network in (UNet(12), Mine(32), small_cnn(4)))
    assert fuse(cifar_resnet(8, 4), torch.rand(1, 3, 32, 32), least=100) is None  # on a CPU


def test_what_has_no_kernels_is_compiled_for_a_size_of_batch(monkeypatch):
    monkeypatch.setattr("ars.kernels.compiled.can_compile", lambda: True)
    monkeypatch.setattr(torch, "compile", lambda network, dynamic: network)
    faster = accelerated(around(nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), small_cnn(4, width=8)), UNet(4)))
    compile_for(faster, 300)
    assert [list(part.compiled) for part in faster.modules() if isinstance(part, Half)] == [[300], [300]]
