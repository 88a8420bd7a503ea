"""Models that are not the same have other digests."""

import numpy as np
import pytest
import torch
from torch import nn

from ars import adaptive, cohen, unicr
from ars.experiments.fingerprint import fingerprint
from ars.models import Normalize, UNet, cifar_resnet
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance
from ars.smoothing.local_gaussian import InputDependentClassifier
from ars.smoothing.nearest_noise import NearestNoise


class Half(nn.Module):
    def __init__(self, level):
        super().__init__()
        self.level = level

    def forward(self, seen):
        return torch.full_like(seen[:, :1], self.level)


class Table(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.register_buffer("table", torch.full((3,), value), persistent=False)

    def forward(self, x):
        return x.flatten(1)[:, :3] + self.table


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))


def two_steps(second):
    return SmoothedClassifier(compose(Gaussian(0.5), second), minimum_variance, network())


def nearest(references, **changes):
    noise = NearestNoise(references, **{"sigma": 0.5, "centre": 1.0, "rate": 0.01, "neighbours": 2, **changes})
    return InputDependentClassifier(noise, network(), train_sigma=0.5)


def test_models_that_differ_anywhere_have_other_digests():
    images = torch.rand(5, 3, 4, 4)
    models = [
        lambda: cohen(network(), sigma=0.5),
        lambda: cohen(network(), sigma=0.6),
        lambda: cohen(nn.Sequential(nn.Flatten(), nn.Linear(48, 3)), sigma=0.5),
        lambda: unicr(network(), sigma=0.5, beta=1.5),
        lambda: unicr(network(), sigma=0.5, beta=1.75),
        lambda: two_steps(Gaussian(0.5)),
        lambda: two_steps(MaskedGaussian(0.5, Half(0.5))),
        lambda: two_steps(MaskedGaussian(0.5, Half(0.75))),
        lambda: adaptive(network(), nn.Conv2d(3, 1, 1), sigma=0.5),
        lambda: cohen(Table(0.0), sigma=0.5),
        lambda: cohen(Table(1.0), sigma=0.5),
        lambda: nearest(images),
        lambda: nearest(images.flip(0)),
        lambda: nearest(images, sigma=0.6),
        lambda: nearest(images, centre=2.0),
        lambda: nearest(images, neighbours=3),
        lambda: nearest(images, rate=0.02),
    ]
    digests = [fingerprint(make()) for make in models]
    assert len(set(digests)) == len(digests)
    same = [0, 3, 5, 6, 9, 11]
    assert [fingerprint(models[number]()) for number in same] == [digests[number] for number in same]


@torch.no_grad()
def test_the_last_number_of_a_large_tensor_counts():
    model = cohen(nn.Sequential(nn.Flatten(), nn.Linear(48, 5000)), sigma=0.5)
    before = fingerprint(model)
    model.classifier[1].weight[-1, -1] += 1
    assert fingerprint(model) != before


def test_the_digest_of_a_trained_model_is_that_of_earlier_records():
    """Records go on over releases; a digest that changes for no reason would strand them."""
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), cifar_resnet(8, 4))
    model = adaptive(classifier, UNet(4), sigma=0.25)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.5)
    assert fingerprint(model) == "0a0c9ceaba62d423"


class Scaled(nn.Module):
    """A user's network with a setting of its own beside its layers."""

    def __init__(self, scale):
        super().__init__()
        self.scale, self.layer = scale, nn.Linear(48, 3)

    def forward(self, x):
        return self.scale * self.layer(x.flatten(1))


def test_models_with_the_same_weights_that_compute_otherwise_have_other_digests():
    def layers(activation, *, stride=1, eps=1e-5):
        return nn.Sequential(nn.Conv2d(3, 4, 3, stride), nn.BatchNorm2d(4, eps), activation, nn.AdaptiveAvgPool2d(1))

    two = compose(Gaussian(0.5), Gaussian(0.5))
    changed = cifar_resnet(8, 4)
    changed.layer1[0].bn1.eps = 1e-3
    makes = [
        lambda: cohen(layers(nn.ReLU()), sigma=0.5),
        lambda: cohen(layers(nn.Tanh()), sigma=0.5),
        lambda: cohen(layers(nn.LeakyReLU(0.9)), sigma=0.5),
        lambda: cohen(layers(nn.ReLU(), stride=2), sigma=0.5),
        lambda: cohen(layers(nn.ReLU(), eps=1.0), sigma=0.5),
        lambda: cohen(Scaled(1.0), sigma=0.5),
        lambda: cohen(Scaled(-1.0), sigma=0.5),
        lambda: SmoothedClassifier(two, last, layers(nn.ReLU())),
        lambda: SmoothedClassifier(two, minimum_variance, layers(nn.ReLU())),
        lambda: cohen(cifar_resnet(8, 4), sigma=0.5),
        lambda: cohen(changed, sigma=0.5),
    ]
    digests = []
    for make in makes:
        model = make()
        for parameter in model.parameters():
            nn.init.constant_(parameter, 0.5)
        digests.append(fingerprint(model))
        assert fingerprint(model.eval()) == digests[-1]
    assert len(set(digests)) == len(digests)


class Kept(nn.Module):
    """A user's network that keeps what it computes with where no state dict looks."""

    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def forward(self, x):
        return x.flatten(1)[:, :3]


def shifted_by(number):
    shift = torch.full((3,), number)
    return lambda x: x + shift


def shifted_by_default(number):
    shift = torch.full((3,), number)
    return lambda x, by=shift: x + by


@pytest.mark.parametrize(
    "keep",
    [
        lambda number: torch.full((3,), number),
        lambda number: [torch.full((3,), number)],
        lambda number: {"table": (np.full(3, number),)},
        lambda number: np.array([1.0, 2.0, number]),
        shifted_by,
        shifted_by_default,
        lambda number: [Table(number)],
    ],
    ids=["tensor", "list", "mapping", "end of an array", "function", "default of a function", "module in a list"],
)
def test_numbers_that_no_state_dict_holds_are_told_apart(keep):
    one, same, other = (fingerprint(cohen(Kept(keep(number)), sigma=0.5)) for number in (0.25, 0.25, 0.75))
    assert one == same != other


@pytest.mark.parametrize("change", ["hook", "hook before", "forward"])
def test_a_network_that_was_changed_by_hand_is_another(change):
    def changed(number):
        net = network()
        shift = shifted_by(number)
        if change == "hook":
            net.register_forward_hook(lambda module, inputs, output: shift(output))
        elif change == "hook before":
            net.register_forward_pre_hook(lambda module, inputs: (shift(inputs[0]),))
        else:
            net.forward = lambda x: shift(x.flatten(1)[:, :3])
        return fingerprint(cohen(net, sigma=0.5))

    digests = [fingerprint(cohen(network(), sigma=0.5)), changed(0.25), changed(0.75)]
    assert len(set(digests)) == 3
    assert changed(0.25) == digests[1]


def test_parts_that_refer_to_the_whole_model_are_told_apart_as_well():
    def referring(number):
        net = nn.Sequential(Kept(torch.full((3,), number)), nn.Linear(3, 3))
        nn.init.constant_(net[1].weight, 0.5)
        nn.init.constant_(net[1].bias, 0.5)
        other = Kept([net])  # the parent in a list, so that it is not registered
        net[0].others = [other, {net: other}, np.array(["a"]), np.array([None]), torch.eye(2).to_sparse()]
        for part in net:
            part.register_forward_hook(lambda module, inputs, output: output * net[1].weight.mean())
        return fingerprint(cohen(net, sigma=0.5))

    assert referring(0.25) == referring(0.25) != referring(0.75)
