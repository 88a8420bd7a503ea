"""The numbers of tensors of any kind."""

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from ars import certify, cohen
from ars.certification.independence import check_independent
from ars.certification.network_state import checksum, state
from ars.certification.plain_tensors import is_plain, plain_parts

from .own_parts import Wrapped


class Derived(torch.Tensor):
    """A class of somebody's own that changes nothing."""


def table(number):
    return torch.diag(torch.tensor([number, 2.0, 3.0, 4.0]))


KINDS = {
    "sparse": lambda number: table(number).to_sparse(),
    "sparse by rows": lambda number: table(number).to_sparse_csr(),
    "sparse by columns": lambda number: table(number).to_sparse_csc(),
    "sparse by blocks": lambda number: table(number).to_sparse_bsr((2, 2)),
    "quantised": lambda number: torch.quantize_per_tensor(table(number), 0.5, 0, torch.qint8),
    "scale": lambda number: torch.quantize_per_tensor(number * table(1.0), number / 2, 0, torch.qint8),
    "scale of a channel": lambda number: torch.quantize_per_channel(
        number * table(1.0), torch.full((4,), number / 2), torch.zeros(4), 0, torch.qint8
    ),
    "nested": lambda number: torch.nested.nested_tensor([torch.ones(2), torch.full((3,), number)]),
    "jagged": lambda number: torch.nested.nested_tensor([torch.ones(2), table(number)[0]], layout=torch.jagged),
    "wrapped": lambda number: Wrapped(torch.ones(3), torch.tensor(number)),
    "derived": lambda number: table(number).as_subclass(Derived),
    "conjugate": lambda number: (1j * table(number)).conj(),
    "negative": lambda number: (1j * table(number)).conj().imag,
    "of oneDNN": lambda number: table(number).to_mkldnn(),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_of_tensor_shows_its_numbers(kind):
    one, same, other = kind(1.0), kind(1.0), kind(3.0)
    assert not is_plain(one)
    assert all(is_plain(part) for part in plain_parts(one))
    assert checksum([one]) == checksum([same]) != checksum([other])


@pytest.mark.parametrize(
    "tensor", [torch.ones(3, 2), nn.Parameter(torch.ones(3)), torch.ones(4, 3, dtype=torch.int8).T]
)
def test_a_plain_tensor_is_its_own_numbers(tensor):
    [part] = plain_parts(tensor)
    assert part is tensor


class Holding(nn.Linear):
    """A layer beside numbers that it does not use."""

    def __init__(self, held):
        super().__init__(48, 3)
        self.register_buffer("held", held)

    def forward(self, x):
        return super().forward(x.flatten(1))


@pytest.mark.parametrize(
    "held",
    [torch.ones(3, device="meta"), UninitializedParameter(), Wrapped(torch.ones(3), None)],
    ids=["meta", "lazy", "wrapped"],
)
def test_what_cannot_be_looked_at_is_told_and_keeps_nobody_from_certifying(held):
    assert plain_parts(held) is None
    assert checksum([held]) == checksum([])
    [certificate] = certify(cohen(Holding(held), sigma=0.5), torch.rand(1, 3, 4, 4), n_estimate=100, seed=0)
    assert sum(certificate.counts) == 100


def test_a_model_whose_numbers_cannot_be_looked_at_is_tried_each_time(monkeypatch):
    model, images, calls = cohen(nn.Sequential(nn.Flatten(), nn.Linear(48, 3)), sigma=0.5), torch.rand(2, 3, 4, 4), []
    monkeypatch.setattr("ars.certification.independence.try_out", lambda model, images: calls.append(len(images)))
    for _ in range(2):
        check_independent(model, images)
    assert calls == [2]
    model.classifier.register_buffer("held", torch.ones(3, device="meta"))
    for _ in range(2):
        check_independent(model, images)
    assert calls == [2, 2, 2]


def test_numbers_inside_of_a_wrapped_tensor_are_part_of_the_state():
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(Wrapped(torch.ones(3, 3), torch.tensor(2.0)), requires_grad=False)
    before = state(layer)
    assert state(layer) == before
    layer.weight.scale.fill_(3.0)
    assert state(layer) != before
