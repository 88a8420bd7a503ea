"""Models that are not the same have other digests, and those of earlier records stay what they are."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from ars import adaptive, cohen, static_mask, sukenik, unicr
from ars.certification import digest
from ars.certification.digest import digest_model
from ars.models import Normalize, StaticMask, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance
from ars.smoothing.input_dependent import InputDependentClassifier, NearestNoise

from .user_parts import Function


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))


def constant(model):
    """The model with the same number in every parameter, so that machines agree on its digest."""
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.5)
    return model


def normalised(inner):
    return nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), inner)


def layers(activation=None, *, stride=2, eps=1e-3, pool=2):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride, padding=[1, 1]), nn.BatchNorm2d(4, eps), activation or nn.LeakyReLU(0.2),
        nn.MaxPool2d([pool, pool]), nn.Dropout(0.3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def references():
    return torch.arange(25 * 3 * 16).reshape(25, 3, 4, 4).remainder(256) / 256


OF_EARLIER_RECORDS = {
    "fdc2e52e646f2444": lambda: cohen(normalised(cifar_resnet(8, 4)), sigma=0.5),
    "0a0c9ceaba62d423": lambda: adaptive(normalised(cifar_resnet(8, 4)), UNet(4), sigma=0.25),
    "50c871beae0765a0": lambda: adaptive(normalised(cifar_resnet(8, 4)), UNet(4), sigma=0.25, share="learned"),
    "d7db31cacd28eeb3": lambda: unicr(normalised(cifar_resnet(8, 4)), sigma=0.5, beta=2.25),
    "9200099b4c407acc": lambda: static_mask(normalised(cifar_resnet(8, 4)), StaticMask(8, 8), sigma=0.5),
    "ecb010ef806ed3ae": lambda: sukenik(normalised(cifar_resnet(8, 4)), references(), sigma=0.5),
    "f69569f06857cba1": lambda: cohen(normalised(resnet50(4)), sigma=0.5),
    "24c27edbfc3d40eb": lambda: cohen(normalised(small_cnn(4, width=8)), sigma=0.5),
    "cd573675876e9dc3": lambda: cohen(layers(), sigma=0.5),
    "a7c3d4ec28349f9f": lambda: SmoothedClassifier(compose(Gaussian(0.5), Gaussian(0.7)), last, layers()),
}


@pytest.mark.parametrize(("known", "make"), OF_EARLIER_RECORDS.items(), ids=OF_EARLIER_RECORDS)
def test_the_digest_of_a_model_is_that_of_earlier_records(known, make):
    """Records are continued over releases; a digest that changes for no reason would strand them."""
    model = constant(make())
    assert digest_model(model) == digest_model(model.eval()) == known


class Part(nn.Module):
    """A part of a model that is never run, with these attributes; tensors that are not saved are buffers."""

    def __init__(self, **attributes):
        super().__init__()
        for name, value in attributes.items():
            if name == "table":
                self.register_buffer(name, value, persistent=False)
            else:
                setattr(self, name, value)


def table(value):
    return Part(table=torch.full((3,), value))


def weighing_by(weight):
    return Part(weight=nn.Parameter(torch.tensor(weight)))


class OwnStep(Gaussian):
    """A user's noise, with a setting that its sigma does not tell."""

    def __init__(self, floor):
        super().__init__(0.5)
        self.floor = floor


class Extra(nn.Flatten):
    """Saves more than tensors."""

    def __init__(self, number):
        super().__init__()
        self.numbers = [number]

    def get_extra_state(self):
        return {"numbers": self.numbers}


class First(Function):
    version = 1


class Second(Function):
    version = 2


Second.__qualname__ = First.__qualname__  # the code changed, the name did not


def versioned(model, version):
    model.version = version
    return model


def two_steps(second, combine=minimum_variance):
    return SmoothedClassifier(compose(Gaussian(0.5), second), combine, network())


def nearest(references, **changes):
    noise = NearestNoise(references, **{"sigma": 0.5, "centre": 1.0, "rate": 0.01, "neighbours": 2, **changes})
    return InputDependentClassifier(noise, network(), train_sigma=0.5)


def of_last_number(shift):
    model = cohen(nn.Sequential(nn.Flatten(), nn.Linear(48, 5000)), sigma=0.5)
    constant(model).classifier[1].weight.data[-1, -1] += shift
    return model


IMAGES = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
OTHER_MODELS = {
    "plain": lambda: cohen(network(), sigma=0.5),
    "sigma": lambda: cohen(network(), sigma=0.6),
    "weights": lambda: constant(cohen(network(), sigma=0.5)),
    "last weight of many": lambda: of_last_number(0.0),
    "last weight of many, changed": lambda: of_last_number(1.0),
    "noise": lambda: unicr(network(), sigma=0.5, beta=1.5),
    "shape of the noise": lambda: unicr(network(), sigma=0.5, beta=1.75),
    "own step": lambda: SmoothedClassifier(compose(OwnStep(0.5)), last, network()),
    "own step, setting": lambda: SmoothedClassifier(compose(OwnStep(1.5)), last, network()),
    "two steps": lambda: two_steps(Gaussian(0.5)),
    "two steps, combination": lambda: two_steps(Gaussian(0.5), last),
    "two steps, own combination": lambda: two_steps(Gaussian(0.5), weighing_by(0.25)),
    "two steps, weight of the combination": lambda: two_steps(Gaussian(0.5), weighing_by(0.75)),
    "mask": lambda: two_steps(MaskedGaussian(0.5, Part(_level=0.5))),
    "mask, setting": lambda: two_steps(MaskedGaussian(0.5, Part(_level=0.75))),
    "mask, network": lambda: adaptive(network(), constant(nn.Conv2d(3, 1, 1)), sigma=0.5),
    "buffer that is not saved": lambda: cohen(table(0.0), sigma=0.5),
    "buffer that is not saved, changed": lambda: cohen(table(1.0), sigma=0.5),
    "references": lambda: nearest(IMAGES),
    "references, order": lambda: nearest(IMAGES.flip(0)),
    "references, sigma": lambda: nearest(IMAGES, sigma=0.6),
    "references, centre": lambda: nearest(IMAGES, centre=2.0),
    "references, neighbours": lambda: nearest(IMAGES, neighbours=3),
    "references, rate": lambda: nearest(IMAGES, rate=0.02),
    "layers": lambda: constant(cohen(layers(), sigma=0.5)),
    "layers, class": lambda: constant(cohen(layers(nn.Tanh()), sigma=0.5)),
    "layers, setting": lambda: constant(cohen(layers(nn.LeakyReLU(0.9)), sigma=0.5)),
    "layers, stride": lambda: constant(cohen(layers(stride=1), sigma=0.5)),
    "layers, eps": lambda: constant(cohen(layers(eps=1.0), sigma=0.5)),
    "layers, list": lambda: constant(cohen(layers(pool=3), sigma=0.5)),
    "own setting": lambda: constant(cohen(Part(p=1.0, layer=nn.Linear(3, 3)), sigma=0.5)),
    "own setting, changed": lambda: constant(cohen(Part(p=30.0, layer=nn.Linear(3, 3)), sigma=0.5)),
    "more than tensors": lambda: cohen(Extra(0.25), sigma=0.5),
    "more than tensors, changed": lambda: cohen(Extra(0.75), sigma=0.5),
    "version": lambda: cohen(Part(version=1, inner=network()), sigma=0.5),
    "version, changed": lambda: cohen(Part(version=2, inner=network()), sigma=0.5),
    "version of the model": lambda: versioned(cohen(network(), sigma=0.5), 1),
    "version of the model, changed": lambda: versioned(cohen(network(), sigma=0.5), (2, "b")),
    "version of a sequence": lambda: cohen(versioned(network(), 1), sigma=0.5),
    "version of a class": lambda: cohen(First(torch.relu), sigma=0.5),
    "version of a class, changed": lambda: cohen(Second(torch.relu), sigma=0.5),
}


def test_models_that_differ_anywhere_have_other_digests_and_the_same_models_the_same():
    digests = {name: digest_model(make()) for name, make in OTHER_MODELS.items()}
    assert len(set(digests.values())) == len(digests)
    assert digests == {name: digest_model(make()) for name, make in OTHER_MODELS.items()}
    assert all(len(value) == 16 for value in digests.values())


def test_a_tensor_read_by_parts_has_the_digest_of_the_whole(monkeypatch):
    before = digest_model(of_last_number(0.0))
    monkeypatch.setattr(digest, "AT_ONCE", 7)
    assert digest_model(of_last_number(0.0)) == before


def test_what_the_module_says_it_does_not_see_changes_no_digest():
    """If one of these comes to count, the documentation has to say so, and records of such models are stranded."""

    def of(change):
        model = cohen(normalised(cifar_resnet(8, 4)), sigma=0.5)
        change(constant(model))
        return digest_model(model)

    plain = of(lambda model: None)
    assert of(lambda model: model.classifier.register_forward_hook(lambda *_: None)) == plain
    assert of(lambda model: setattr(model.classifier[1], "levels", [1.0])) == plain
    assert of(lambda model: setattr(model.classifier[1].layer1[0].bn1, "eps", 1.0)) == plain
    kept = [digest_model(cohen(Function(lambda x, number=number: x * number), sigma=0.5)) for number in (1, 2)]
    assert kept[0] == kept[1]


def test_a_compiled_network_has_one_digest_however_often_it_is_compiled():
    """torch keeps an address on the module that it compiles into."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    one, two = (cohen(torch.compile(net), sigma=0.5) for _ in range(2))
    before = digest_model(one)
    assert digest_model(two) == before
    with torch.no_grad():
        net[1].bias += 1
    assert digest_model(one) != before


@pytest.mark.parametrize(
    "net",
    [table(0.5).to("meta"), nn.Sequential(nn.Flatten(), nn.LazyLinear(3))],
    ids=["meta", "lazy"],
)
def test_numbers_that_cannot_be_read_are_told_by_their_name(net):
    with pytest.raises(ValueError, match=r"classifier\.[\w.]+, a \w+ on"):
        digest_model(cohen(net, sigma=0.5))


def weighing(releases, share):
    return share * releases[0].value + (1 - share) * releases[1].value


def around_ours(scale):
    ours = cifar_resnet(8, 3)
    ours.relu = Part(scale=scale)
    return cohen(ours, sigma=0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda number: cohen(Part(scale=torch.tensor([number])), sigma=0.5),
        lambda number: cohen(Part(scale=np.array([number])), sigma=0.5),
        around_ours,
        lambda number: two_steps(Gaussian(0.5), partial(weighing, share=number)),
    ],
    ids=["tensor", "array", "inside our network", "partial function"],
)
def test_numbers_beside_the_state_dict_count_where_they_are_plain(make):
    torch.manual_seed(0)
    models = [make(0.25), make(0.75)]
    models[1].load_state_dict(models[0].state_dict())
    assert digest_model(models[0]) != digest_model(models[1])
    assert digest_model(models[0]) == digest_model(models[0])
