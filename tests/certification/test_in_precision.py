"""Models that answer in float32 alone are told so before any vote is counted."""

import pytest
import torch
from torch import nn

from ars import adaptive, certify, cohen, predict
from ars.certification.in_precision import check_precision
from ars.certification.sampling import watched
from ars.models import UNet, small_cnn

from .own_parts import Function, plain

SENTENCE = r"^the model answers in float32 but not in bfloat16 \(%s[^\n]*\); ask for float32 \(--precision float32\)$"


class Scattering(nn.Module):
    """Puts the logits of a head of fewer classes in their places, which takes numbers of one type."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head, self.places = nn.Linear(192, 2), torch.tensor([0, 3])

    def forward(self, x):
        logits = torch.full((len(x), 5), -9.0)
        logits[:, self.places] = self.head(x.flatten(1))
        return logits


def refusing_halves(x):
    if torch.is_autocast_enabled("cpu"):
        raise TypeError("not with autocast\nand more lines")
    return x.flatten(1)[:, :3]


def no_numbers_in_halves(x):
    return x.flatten(1)[:, :3] * (torch.nan if torch.is_autocast_enabled("cpu") else 1.0)


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Scattering(), "RuntimeError: Index put"),
        (Function(refusing_halves), "TypeError: not with autocast"),
        (Function(no_numbers_in_halves), "ValueError: the classifier gave logits that are no numbers"),
    ],
    ids=["types", "refusing", "no numbers"],
)
def test_a_model_that_answers_in_float32_alone_is_told_so(network, why):
    model, image = cohen(network, sigma=0.5), torch.rand(3, 8, 8)
    for ask in (certify, predict):
        ask(model, image, seed=0, precision="float32")
        with pytest.raises(ValueError, match=SENTENCE % why):
            ask(model, image, seed=0, precision="bfloat16")


@pytest.mark.parametrize("model", [cohen(plain(), sigma=0.5), adaptive(small_cnn(4, width=8), UNet(4), sigma=0.5)])
def test_what_answers_in_both_passes_and_is_no_draw_of_anybodys(model):
    drawn = []
    with watched(drawn.append):
        check_precision(model, torch.rand(2, 3, 16, 16), "bfloat16")
    assert drawn == []


def test_memory_that_is_short_is_not_laid_to_the_precision():
    def full(x):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(RuntimeError, match="can't allocate"):
        check_precision(cohen(Function(full), sigma=0.5), torch.rand(2, 3, 8, 8), "bfloat16")


def test_a_model_is_asked_once_for_images_of_each_shape():
    calls = []
    model = cohen(Function(lambda x: calls.append(len(x)) or x.flatten(1)[:, :3]), sigma=0.5)
    for size in (8, 8, 4, 8):
        check_precision(model, torch.rand(2, 3, size, size), "bfloat16")
    check_precision(model, torch.rand(2, 3, 2, 2), "float32")
    assert calls == [100, 100]
