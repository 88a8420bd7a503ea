"""Draws that hang together are refused; rounding is not."""

from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ars import adaptive, certify, cohen, predict, sukenik
from ars.certification.evaluating import evaluating
from ars.certification.independence import check_independent
from ars.models import Normalize, UNet, cifar_resnet
from ars.smoothing import Gaussian, SmoothedClassifier, compose, draw_like, last

from .own_parts import Function, Noisy, plain

TRIAL = [8] + [1] * 8 + [16] * 3
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


class Spy(nn.Module):
    """Two pixels as logits, and how many images each call had."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x):
        self.calls.append(len(x))
        return x.flatten(1)[:, :2]


@pytest.mark.parametrize(
    "model",
    [
        cohen(HalvesOfTheBatch(centre=True), sigma=0.5),
        adaptive(plain(), Function(mask_of_the_batch), sigma=0.5),
        SmoothedClassifier(compose(Gaussian(0.5)), mean_of_the_batch, plain()),
        cohen(
            nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(256, 2), nn.Flatten(), nn.Linear(768, 4)), sigma=0.5
        ),
        sukenik(HalvesOfTheBatch(centre=True), torch.rand(30, 3, 16, 16), sigma=0.5),
    ],
    ids=["classifier", "mask", "combine", "attention", "local"],
)
def test_what_looks_at_the_batch_is_refused(model):
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


def counted(monkeypatch):
    """How many images each call of a module of torch's own had."""
    calls, forward = [], nn.Flatten.forward

    def spying(self, x):
        calls.append(len(x))
        return forward(self, x)

    monkeypatch.setattr(nn.Flatten, "forward", spying)
    return calls


def test_a_model_of_familiar_parts_is_tried_once_and_again_when_one_is_replaced(monkeypatch):
    calls, images = counted(monkeypatch), torch.rand(2, 3, 8, 8)
    model = cohen(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), sigma=0.5)
    check_independent(model, images)
    assert calls == TRIAL
    check_independent(model, images)
    assert len(calls) == 12
    model.classifier[1] = nn.Linear(192, 5)
    check_independent(model, images)
    assert len(calls) == 24
    check_independent(model, torch.rand(2, 3, 4, 16))
    assert len(calls) == 36


def test_what_somebody_wrote_is_tried_each_time():
    spy, images = Spy(), torch.rand(2, 3, 8, 8)
    for times in (1, 2):
        check_independent(cohen(spy, sigma=0.5), images)
        assert spy.calls == times * TRIAL


def test_each_image_of_a_local_model_is_not_tried_anew():
    spy = Spy()
    certify(
        sukenik(spy, torch.rand(30, 3, 4, 4), sigma=0.5), torch.rand(3, 3, 4, 4), n_select=100, n_estimate=100, seed=0
    )
    assert spy.calls[:12] == TRIAL
    assert sum(spy.calls[12:]) == 600


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
        self.share = self._hidden = 0.0
        self.config = SimpleNamespace(share=0.0)
        self.more = [torch.zeros(())]

    def mixed(self, logits):
        return (self.gate + self.share + self._hidden + self.config.share + self.more[0]) * logits.mean(dim=0)

    def forward(self, x):
        logits = x.flatten(1)[:, :3]
        return logits - self.mixed(logits)


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network.gate.data.fill_(1.0),
        lambda network: setattr(network, "share", 1.0),
        lambda network: setattr(network, "_hidden", 1.0),
        lambda network: setattr(network.config, "share", 1.0),
        lambda network: network.more[0].fill_(1.0),
        lambda network: setattr(network, "mixed", lambda logits: logits.mean(dim=0)),
        lambda network: network.register_forward_hook(lambda part, given, logits: logits - logits.mean(dim=0)),
    ],
    ids=["weights", "setting", "private setting", "setting of a setting", "tensor in a list", "method", "hook"],
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


class OverTheBatch(nn.Module):
    """A difference of two halves, treated with statistics of the batch, as the first two of some classes."""

    def __init__(self, treat, others=(), dtype=torch.float32, shared=0.0):
        super().__init__()
        self.treat, self.others, self.dtype, self.shared = treat, others, dtype, shared

    def forward(self, x):
        difference = self.treat(x[..., :8].mean(dim=(1, 2, 3)) - x[..., 8:].mean(dim=(1, 2, 3)))
        logits = torch.stack([difference, -difference], dim=1) + self.shared * x.mean(dim=(1, 2, 3)).unsqueeze(1)
        return torch.cat([logits, torch.tensor(self.others).expand(len(x), -1)], dim=1).to(self.dtype)


def centred(difference):
    return difference - difference.mean()


@pytest.mark.parametrize(
    "network",
    [
        OverTheBatch(lambda d: centred(d) / (centred(d).square().sum() / (len(d) - 1)).sqrt()),
        OverTheBatch(centred, others=(-torch.inf,)),
        OverTheBatch(centred, others=(-1e9,)),
        OverTheBatch(centred, others=(-20.0,), dtype=torch.bfloat16),
        OverTheBatch(centred, shared=1e3),
    ],
    ids=[
        "standardised: alone it is no number",
        "ruled out",
        "nearly ruled out",
        "bf16",
        "a spread that all classes share",
    ],
)
def test_no_other_class_and_no_common_spread_hides_it(network):
    images = torch.rand(1, 3, 16, 16).expand(3, -1, -1, -1).clone()
    images[..., :8] += 0.2
    with pytest.raises(ValueError, match=REFUSED):
        check_independent(cohen(network, sigma=0.5), images.clamp(0, 1))
    network.treat = lambda difference: difference
    check_independent(cohen(network, sigma=0.5), images.clamp(0, 1))


def test_randomness_of_its_own_is_refused_however_rarely_it_shows():
    class Coin(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :2] + (torch.rand(()) < 1e-9)

    images = torch.rand(2, 3, 16, 16)
    for network in (Coin(), nn.Sequential(nn.Dropout(), Function(lambda x: nn.functional.dropout(x)), plain())):
        for ask in (certify, predict):
            with pytest.raises(ValueError, match="draws random numbers of its own"):
                ask(cohen(network, sigma=0.5), images, seed=0)


def test_random_numbers_that_others_draw_while_it_waits_are_not_laid_to_the_model():
    model, images, passed = cohen(plain(), sigma=0.5), torch.rand(2, 3, 16, 16), []
    waiting = Thread(target=lambda: passed.append(check_independent(model, images)))
    with evaluating(model):
        waiting.start()
        waiting.join(timeout=0.3)
        torch.rand(1)
    waiting.join(timeout=30)
    assert passed == [None]


def test_a_network_that_goes_on_learning_is_refused_however_slowly():
    class Streaming(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor(0.5))

        def forward(self, x):
            seen = x.mean(dim=(1, 2, 3))
            logits = torch.stack([seen - self.mean, self.mean - seen], dim=1)
            self.mean.lerp_(seen.mean(), 1e-6)
            return logits

    with pytest.raises(ValueError, match="changes its own weights or buffers while it answers"):
        certify(cohen(Streaming(), sigma=0.5), torch.full((3, 16, 16), 0.9), seed=0)


def test_each_image_is_answered_once():
    network = Function(lambda x: x.flatten(1)[:100, :2])
    with pytest.raises(ValueError, match="must answer each image once, got 100 answers to 200 images"):
        certify(cohen(network, sigma=0.5), torch.rand(2, 3, 16, 16), n_estimate=1000, seed=0)


def test_noise_that_one_generator_of_several_drew_is_told_how_to_be_drawn():
    images = torch.rand(2, 3, 16, 16)
    naive = Noisy(lambda x, generator: torch.empty_like(x).uniform_(-1, 1, generator=generator[0]))
    with pytest.raises(ValueError, match=rf"{REFUSED}.* steps whose noise is drawn with ars\.draw_like$"):
        certify(SmoothedClassifier(compose(naive), last, plain()), images, seed=0)
    sound = Noisy(lambda x, generator: draw_like(x, generator, lambda run, one: run.uniform_(-1, 1, generator=one)))
    check_independent(SmoothedClassifier(compose(sound), last, plain()), images)


@pytest.mark.parametrize("ask", [certify, predict])
def test_a_network_for_images_of_another_size_is_told_in_a_sentence(ask):
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 2))
    ask(cohen(network, sigma=0.5), torch.rand(3, 16, 16), seed=0)
    with pytest.raises(
        ValueError, match=r"^the model cannot take images of shape \[3, 8, 8\]: RuntimeError: mat1 and "
    ):
        ask(cohen(network, sigma=0.5), torch.rand(3, 8, 8), seed=0)


def test_memory_that_is_short_is_not_laid_to_the_size_of_the_images():
    def full(x):
        raise torch.OutOfMemoryError("no memory")

    with pytest.raises(torch.OutOfMemoryError):
        check_independent(cohen(Function(full), sigma=0.5), torch.rand(2, 3, 8, 8))
