"""Draws that hang together are refused; rounding is not."""

import pytest
import torch
from torch import nn

from ars import adaptive, certify, cohen, predict, sukenik
from ars.certification.independence import check_independent
from ars.models import Normalize, UNet, cifar_resnet, small_cnn
from ars.smoothing import Gaussian, SmoothedClassifier, compose

REFUSED = "answers otherwise to a noisy image alone than among others"


class HalvesOfTheBatch(nn.Module):
    """Which half of the image is lighter, after a normalisation over the batch; other classes never win."""

    def __init__(self, centre):
        super().__init__()
        self.centre = centre

    def forward(self, x):
        left, right = x[..., : x.shape[-1] // 2].mean(dim=(1, 2, 3)), x[..., x.shape[-1] // 2 :].mean(dim=(1, 2, 3))
        difference = left - right
        if self.centre:
            difference = difference - difference.mean()
        votes = torch.full((len(x), 4), -100.0)
        votes[:, 0], votes[:, 1] = difference, -difference
        return votes


def mask_of_the_batch(seen):
    return (seen - seen.mean(dim=0)).abs().mean(dim=1, keepdim=True).clamp(0, 1)


def mean_of_the_batch(releases):
    return releases[-1].value + 0.3 * releases[-1].value.mean(dim=0)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Spy(nn.Module):
    """Two pixels as logits, and how many images each call had."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x):
        self.calls.append(len(x))
        return x.flatten(1)[:, :2]


def plain():
    torch.manual_seed(0)
    return small_cnn(4, width=8)


@pytest.mark.parametrize(
    "model",
    [
        cohen(HalvesOfTheBatch(centre=True), sigma=0.5),
        adaptive(plain(), Function(mask_of_the_batch), sigma=0.5),
        SmoothedClassifier(compose(Gaussian(0.5)), mean_of_the_batch, plain()),
        cohen(nn.Sequential(nn.Dropout(), Function(lambda x: nn.functional.dropout(x)), plain()), sigma=0.5),
        cohen(
            nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(256, 2), nn.Flatten(), nn.Linear(768, 4)), sigma=0.5
        ),
        sukenik(HalvesOfTheBatch(centre=True), torch.rand(30, 3, 16, 16), sigma=0.5),
    ],
    ids=["classifier", "mask", "combine", "random", "attention", "local"],
)
def test_what_looks_at_the_batch_is_refused_and_so_is_randomness(model):
    images = torch.rand(3, 3, 16, 16)
    for ask in (certify, predict):
        with pytest.raises(ValueError, match=REFUSED):
            ask(model, images[0], seed=0)
        with pytest.raises(ValueError, match=REFUSED):
            ask(model, images, seed=0)


@pytest.mark.parametrize(
    "model",
    [
        cohen(HalvesOfTheBatch(centre=False), sigma=0.5),
        cohen(nn.Sequential(Normalize([0.5] * 3, [0.01] * 3), cifar_resnet(20, 10)), sigma=0.12),
        cohen(nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), cifar_resnet(20, 10)).bfloat16(), sigma=0.5),
        adaptive(plain(), UNet(4), sigma=1.0),
        cohen(Function(lambda x: torch.zeros(len(x), 3)), sigma=0.5),
        cohen(Function(lambda x: torch.tensor([1e6, 0.0]) + x.flatten(1)[:, :2]), sigma=0.5),
        cohen(Function(lambda x: nn.functional.one_hot((x.mean(dim=(1, 2, 3)) > 0.5).long(), 3)), sigma=0.5),
    ],
    ids=["halves", "steep", "bf16", "adaptive", "constant", "large", "whole numbers"],
)
def test_what_takes_each_image_by_itself_passes(model):
    torch.manual_seed(1)
    if model.classifier.__class__ is nn.Sequential and next(model.parameters()).dtype == torch.bfloat16:
        model.classifier.insert(0, Function(lambda x: x.bfloat16()))
    check_independent(model, torch.rand(3, 3, 16, 16))


def test_a_model_is_tried_once_and_again_when_a_part_is_replaced():
    spy, images = Spy(), torch.rand(2, 3, 8, 8)
    model = cohen(nn.Sequential(spy, nn.Identity()), sigma=0.5)
    check_independent(model, images)
    assert spy.calls == [8] + [1] * 8
    check_independent(model, images)
    assert len(spy.calls) == 9
    check_independent(model, torch.rand(2, 3, 4, 4))
    assert len(spy.calls) == 18
    model.classifier[1] = Function(lambda logits: logits - logits.mean(dim=0))
    with pytest.raises(ValueError, match=REFUSED):
        check_independent(model, images)


def test_each_image_of_a_local_model_is_not_tried_anew():
    spy = Spy()
    certify(
        sukenik(spy, torch.rand(30, 3, 4, 4), sigma=0.5), torch.rand(3, 3, 4, 4), n_select=100, n_estimate=100, seed=0
    )
    assert spy.calls[:9] == [8] + [1] * 8
    assert sum(spy.calls[9:]) == 600


def test_a_new_part_is_tried_wherever_it_lies_in_memory():
    """What was removed leaves its place to what comes next, and with it its id."""
    model, images = cohen(nn.Sequential(Spy(), nn.Identity()), sigma=0.5), torch.rand(2, 3, 8, 8)
    for _ in range(20):
        model.classifier[1] = Function(lambda logits: logits)
        check_independent(model, images)
        del model.classifier[1]
        model.classifier.append(Function(lambda logits: logits - logits.mean(dim=0)))
        with pytest.raises(ValueError, match=REFUSED):
            check_independent(model, images)


class Gated(nn.Module):
    """Mixes the batch behind a gate that is closed at first, as residual branches often begin."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))
        self.share = 0.0

    def forward(self, x):
        logits = x.flatten(1)[:, :3]
        return logits - (self.gate + self.share) * logits.mean(dim=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network.gate.data.fill_(1.0),
        lambda network: setattr(network, "share", 1.0),
        lambda network: network.register_forward_hook(lambda part, given, logits: logits - logits.mean(dim=0)),
    ],
    ids=["weights", "setting", "hook"],
)
def test_a_network_that_changed_is_tried_again(change):
    model, images = cohen(Gated(), sigma=0.5), torch.rand(2, 3, 8, 8)
    check_independent(model, images)
    change(model.classifier)
    with pytest.raises(ValueError, match=REFUSED):
        check_independent(model, images)


def test_a_mask_that_changed_is_tried_again():
    class Mask(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return 1 - self.gate * (x[:, :1] > x[:, :1].mean(dim=0)).float()

    mask = Mask()
    model, images = adaptive(Spy(), mask, sigma=0.5), torch.rand(2, 3, 8, 8)
    check_independent(model, images)
    with torch.no_grad():
        mask.gate.fill_(1.0)
    with pytest.raises(ValueError, match=REFUSED):
        check_independent(model, images)
