"""Models that are not the same have other digests."""

import dataclasses
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections import deque
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial
from operator import itemgetter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.utils.data import Dataset

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


class Powered(nn.Module):
    """Pooled by a power p, the name of a setting of torch's that counts in training only."""

    def __init__(self, p):
        super().__init__()
        self.p, self.layer = p, nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x.clamp_min(1e-3).pow(self.p).mean(dim=(2, 3)))


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
        lambda: cohen(Powered(1.0), sigma=0.5),
        lambda: cohen(Powered(30.0), sigma=0.5),
        lambda: cohen(layers(nn.MaxPool2d([1, 1])), sigma=0.5),
        lambda: cohen(layers(nn.MaxPool2d([2, 2])), sigma=0.5),
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


@dataclasses.dataclass
class Config:
    """Settings of a user's network."""

    levels: list[float]
    unset: int = dataclasses.field(init=False)


def scaled(x, scale, *, shift=0.0):
    return scale * x + shift


def by_keyword(number):
    def shifted(x, *, by=number):
        return x + by

    return shifted


def enclosed(number):
    return lambda x: x + number


def in_itself(number):
    values = [number]
    values.append(values)
    return values


def shifted_by(number):
    shift = torch.full((3,), number)
    return lambda x: x + shift


def shifted_by_default(number):
    shift = torch.full((3,), number)
    return lambda x, by=shift: x + by


class Settings:
    """Somebody's settings, in the plainest form."""

    def __init__(self, **settings):
        vars(self).update(settings)


class Slotted:
    """With a fixed list of attributes, of which one may be missing."""

    __slots__ = ("missing", "number")

    def __init__(self, number):
        self.number = number


class Kind(Enum):
    """Two ways."""

    LOW, HIGH = 0.25, 0.75


class Reading(Dataset):
    """Derived from one of torch's classes."""

    def __init__(self, number):
        self.number = number


class Steep(Slotted):
    """Of another class, with the same numbers."""


def in_each_other(number):
    """Objects that all refer to each other: more ways through them than could be gone."""
    several = [Settings(number=number + place) for place in range(20)]
    for one in several:
        one.others = [it for it in several if it is not one]
    return several


def remembering(number):
    shift = torch.full((3,), number)
    return lru_cache(lambda x: x + shift)


KEEPS = {
    "object": lambda number: Settings(number=number),
    "object in an object": lambda number: Settings(inner={"of": [Settings(table=torch.full((3,), number))]}),
    "object with slots": Slotted,
    "object of another class": lambda number: (Slotted if number < 0.5 else Steep)(1.0),
    "objects in each other": in_each_other,
    "object derived from torch's": Reading,
    "method of an object": lambda number: Settings(number=number).__init__,
    "namespace": lambda number: SimpleNamespace(number=number),
    "arguments": lambda number: Namespace(number=number),
    "enumeration": Kind,
    "set of enumerations": lambda number: {Kind(number)},
    "range": lambda number: range(int(4 * number)),
    "slice": lambda number: slice(0, int(4 * number)),
    "fraction": Fraction,
    "decimal": Decimal,
    "set of fractions": lambda number: {Fraction(number), Fraction(5)},
    "bytearray": lambda number: bytearray(str(number).encode()),
    "dtype": lambda number: torch.float32 if number < 0.5 else torch.bfloat16,
    "class": lambda number: nn.ReLU if number < 0.5 else nn.GELU,
    "torch's function": lambda number: torch.relu if number < 0.5 else torch.tanh,
    "numpy's function": lambda number: np.sin if number < 0.5 else np.tanh,
    "method of torch's tensors": lambda number: torch.Tensor.relu if number < 0.5 else torch.Tensor.tanh,
    "method of a mapping": lambda number: {"a": number}.get,
    "item of what comes": lambda number: itemgetter(int(4 * number)),
    "remembered function": remembering,
    "distribution": lambda number: torch.distributions.Normal(0.0, number),
    "array of objects": lambda number: np.array([None, number, Settings(number=1.0)]),
    "sparse tensor": lambda number: (number * torch.eye(3)).to_sparse(),
    "tensor": lambda number: torch.full((3,), number),
    "list of tensors": lambda number: [torch.full((3,), number)],
    "mapping of arrays": lambda number: {"table": (np.full(3, number),)},
    "end of an array": lambda number: np.array([1.0, 2.0, number]),
    "function": shifted_by,
    "default of a function": shifted_by_default,
    "module in a list": lambda number: [Table(number)],
    "list": lambda number: [number] * 3,
    "list with tensors": lambda number: [torch.eye(2), number],
    "mapping": lambda number: {"mean": 1, "of": {"it": number}},
    "key of a mapping": lambda number: {number: "key"},
    "set": lambda number: {"a", "b", number},
    "frozen set": lambda number: frozenset([(1, number)]),
    "deque": lambda number: deque([number], maxlen=3),
    "dataclass": lambda number: Config([number]),
    "argument": lambda number: partial(scaled, number),
    "keyword": lambda number: partial(scaled, scale=1.0, shift=number),
    "number in a function": enclosed,
    "keyword of a function": by_keyword,
    "list in itself": in_itself,
    "other plain values": lambda number: [complex(number), str(number).encode(), None],
    "numpy's number": np.float32,
    "numpy's number in a list": lambda number: [np.float32(number)],
    "list in a tuple": lambda number: (str, [number]),
    "setting of a module in a list": lambda number: [Half(number)],
    "setting of torch's module in a list": lambda number: [nn.LeakyReLU(number)],
    "method of a module": lambda number: Table(number).forward,
}


@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
def test_numbers_that_no_state_dict_holds_are_told_apart(keep):
    one, same, other = (fingerprint(cohen(Kept(keep(number)), sigma=0.5)) for number in (0.25, 0.25, 0.75))
    assert one == same != other


def test_equal_settings_are_the_same_wherever_they_lie_and_however_they_were_filled():
    def digest(kept):
        return fingerprint(cohen(Kept(kept), sigma=0.5))

    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({0, 8}) == digest({8, 0})  # which are not in the same order
    assert digest((shifted_by(0.25), scaled)) == digest((shifted_by(0.25), scaled))
    assert digest([object(), {object(): 1}]) == digest([object(), {object(): 1}])


def test_objects_that_lie_too_deep_are_told_in_a_sentence():
    chain = Settings(next=None)
    for _ in range(5000):
        chain = Settings(next=chain)
    with pytest.raises(ValueError, match=r"^the model keeps objects in objects, too deep to look into[^\n]*$"):
        fingerprint(cohen(Kept(chain), sigma=0.5))


def test_classes_that_the_parts_of_a_model_are_of_change_no_digest():
    """Many networks keep which class of layers they were made with."""

    def digest(**kept):
        net = nn.Sequential(nn.Flatten(), nn.Linear(48, 3), Settled(**kept))
        for parameter in net.parameters():
            nn.init.constant_(parameter, 0.5)
        return fingerprint(cohen(net, sigma=0.5))

    assert digest(layer=nn.Linear) == digest(layer=object()) != digest(layer=nn.Bilinear)


class Settled(nn.Module):
    def __init__(self, **kept):
        super().__init__()
        vars(self).update(kept)

    def forward(self, x):
        return x


OWN_PROCESS = """
import functools, io, logging, random, sys, threading, time, weakref
from datetime import datetime
from pathlib import Path
import numpy as np
import torch
from torch import nn
from ars import cohen
from ars.experiments.fingerprint import fingerprint

class Config:
    def __init__(self, model):
        self.levels, self.names, self.root = [0.5, 1.0], {"b", "a", "c"}, str(Path(sys.argv[1]).resolve())
        self.log, self.lock, self.made, self.model = logging.getLogger("x"), threading.Lock(), datetime.now(), model
        self.myself, self.file, self.thread = self, io.BytesIO(), Worker()

class Worker(threading.Thread):
    pass

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(48, 3))
        self.config, self.log, self.lock, self.event = Config(self), logging.getLogger("y"), threading.RLock(), None
        self.act, self.cached, self.weak = lambda x: x.relu(), functools.lru_cache(len), weakref.ref(self)
        self.dice, self.others, self.one = random.Random(), np.random.default_rng(), torch.Generator()
        self.of_parts = {id(it): it.detach() * 2 for it in self.parameters()}
        self.by_part = {it: number for number, it in enumerate(self.parameters())}
        self.clock, self.device, self.some = time.time, torch.device(sys.argv[2]), (number for number in range(3))
        self.bare, self.cached_of = object(), functools.lru_cache(lambda x: x)

torch.manual_seed(0)
junk = [object() for _ in range(int(sys.argv[3]))]
print(fingerprint(cohen(Net(), sigma=0.5)))
"""


def test_what_differs_from_process_to_process_is_no_part_of_the_digest(tmp_path):
    script = tmp_path / "own.py"
    script.write_text(OWN_PROCESS)
    answers = [
        subprocess.run(
            [sys.executable, str(script), *map(str, given)],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number, given in enumerate([(tmp_path, "cpu", 10), (tmp_path / "else", "cuda:1", 1000)])
    ]
    assert answers[0] == answers[1] != ""


def test_a_list_of_many_numbers_takes_no_time():
    network = nn.Sequential(*(nn.Identity() for _ in range(1000)), Kept([0.5] * 1_000_000))
    began = time.perf_counter()
    fingerprint(cohen(network, sigma=0.5))
    assert time.perf_counter() - began < 10


def saving_more(number):
    class Extra(nn.Module):
        """Saves more than tensors."""

        def forward(self, x):
            return x.flatten(1)[:, :3]

        def get_extra_state(self):
            return {"number": [number], "kind": torch.float32}

        def set_extra_state(self, state):
            pass

    return Extra()


def quantised(number):
    """A network of whole numbers, as torch makes it from the range of what it saw."""
    torch.manual_seed(0)
    net = nn.Sequential(quantization.QuantStub(), nn.Flatten(), nn.Linear(48, 3), quantization.DeQuantStub()).eval()
    net.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(net, inplace=True)
    net(number * torch.rand(8, 3, 4, 4))
    return quantization.convert(net)


def buffered(make):
    def build(number):
        net = network()
        net[1].register_buffer("held", make(number))
        return net

    return build


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "make",
    [
        saving_more,
        quantised,
        buffered(lambda number: (number * torch.eye(3)).to_sparse()),
        buffered(lambda number: (number * torch.eye(3)).to_sparse_csr()),
        buffered(lambda number: torch.full((3,), 1j * number).conj()),
        buffered(lambda number: torch.quantize_per_tensor(number * torch.ones(3), number, 0, torch.qint8)),
    ],
    ids=["extra state", "quantised", "sparse", "sparse by rows", "conjugate", "scale of a quantised one"],
)
def test_numbers_of_state_dicts_with_more_than_plain_tensors_count(make):
    one, same, other = (fingerprint(cohen(make(number), sigma=0.5)) for number in (0.25, 0.25, 0.75))
    assert one == same != other


@pytest.mark.parametrize(
    "net", [Table(0.5).to("meta"), nn.Sequential(nn.Flatten(), nn.LazyLinear(3))], ids=["meta", "lazy"]
)
def test_numbers_that_cannot_be_looked_at_are_told_in_a_sentence(net):
    with pytest.raises(
        ValueError, match=r"^the numbers of classifier\.[\w.]+, a \w+ on \w+, cannot be looked at, [^\n]*$"
    ):
        fingerprint(cohen(net, sigma=0.5))


class OwnStep(Gaussian):
    """A user's noise, with a setting that its sigma does not tell."""

    def __init__(self, scale):
        super().__init__(0.5)
        self.scale_of_mine = scale


class Weighing:
    """A combination that is an object."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, releases):
        return self.weight * releases[0].value + (1 - self.weight) * releases[1].value


def weighing(weight):
    def combined(releases):
        return weight * releases[0].value + (1 - weight) * releases[1].value

    return combined


@pytest.mark.parametrize("make", [weighing, Weighing, lambda weight: partial(scaled, scale=weight)])
def test_numbers_of_the_combination_count(make):
    two = compose(Gaussian(0.5), Gaussian(0.5))
    one, same, other = (fingerprint(SmoothedClassifier(two, make(weight), network())) for weight in (0.25, 0.25, 0.75))
    assert one == same != other


def test_the_digest_of_a_model_with_numbers_of_many_kinds_is_that_of_earlier_records():
    net = network()
    for parameter in net.parameters():
        nn.init.constant_(parameter, 0.5)
    kept = {"a": torch.ones(2), "b": np.arange(3.0), "c": {1, 2}, 4: deque([None, True])}
    net.register_forward_hook(partial(scaled, [0.25, 1], shift=kept))
    net.register_forward_pre_hook(shifted_by(0.25))
    model = SmoothedClassifier(compose(Gaussian(0.5), Gaussian(0.5)), Weighing(0.25), net)
    assert fingerprint(model) == "ae88041eebe6a252"


def test_settings_of_a_step_of_ones_own_count():
    one, same, other = (
        fingerprint(SmoothedClassifier(compose(OwnStep(scale)), last, network())) for scale in (0.5, 0.5, 1.2)
    )
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


def test_a_compiled_network_has_one_digest_however_often_it_is_compiled():
    """torch keeps an address on the module that it compiles into."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    one, two = (cohen(torch.compile(net), sigma=0.5) for _ in range(2))
    before = fingerprint(one)
    assert fingerprint(two) == before
    with torch.no_grad():
        net[1].bias += 1
    assert fingerprint(one) != before
