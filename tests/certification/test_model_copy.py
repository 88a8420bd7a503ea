"""The certifier's own copies: of any model, and faster where the answers stay the same."""

import warnings
from threading import Lock

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency
from torch import nn
from torch.nn.utils import parametrizations

from ars import adaptive, certify, cohen, predict
from ars.certification import model_copy
from ars.certification.model_copy import AccelerationWarning, copy_model, fast_copy
from ars.kernels.compiled import Half
from ars.models import Normalize, UNet, cifar_resnet, small_cnn
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, minimum_variance

from .user_parts import Function, plain


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 3))


def test_a_copy_is_in_eval_mode_and_parts_that_were_shared_still_are():
    layer = nn.Linear(3, 3)
    model = cohen(nn.Sequential(layer, nn.Dropout(), layer), sigma=0.5).train()
    copy = copy_model(model)
    assert not any(part.training for part in copy.modules())
    assert all(part.training for part in model.modules())
    assert copy.classifier[0] is copy.classifier[2] is not layer


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.jit.freeze(torch.jit.script(linear().eval())),
        lambda: torch.jit.script(linear()),
        lambda: torch.compile(linear(), backend="eager"),
        lambda: nn.Sequential(nn.Flatten(), parametrizations.weight_norm(linear()[1])),
    ],
    ids=["frozen", "scripted", "compiled", "parametrized"],
)
def test_networks_of_many_kinds_are_certified_as_they_are(make):
    x = torch.rand(3, 8, 8)
    expected = certify(cohen(linear(), sigma=0.5), x, n_estimate=200, seed=0)
    assert certify(cohen(make(), sigma=0.5), x, n_estimate=200, seed=0).counts == expected.counts


class Holding(nn.Flatten):
    def __init__(self, held):
        super().__init__()
        self.held = held


@pytest.mark.parametrize(
    ("held", "error"), [(Lock(), "TypeError"), (torch.ones(3, requires_grad=True) * 2, "RuntimeError")]
)
def test_what_cannot_be_copied_is_told_in_a_line(held, error):
    with pytest.raises(ValueError, match=rf"copied \({error}[^\n]*$"):
        copy_model(cohen(Holding(held), sigma=0.5))


def test_what_refuses_eval_mode_is_told():
    class Exported(nn.Module):
        def train(self, mode=True):
            raise NotImplementedError("Calling train() is not supported yet.")

    with pytest.raises(ValueError, match=r"eval mode \(Calling train"):
        copy_model(cohen(nn.Sequential(nn.Dropout(), Exported()), sigma=0.5))


def refusing_halves(x):
    if torch.is_autocast_enabled("cpu"):
        raise TypeError("not with autocast\nand more lines")
    return x.flatten(1)[:, :3]


def no_numbers_in_halves(x):
    return x.flatten(1)[:, :3] * (torch.nan if torch.is_autocast_enabled("cpu") else 1.0)


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Function(refusing_halves), "TypeError: not with autocast"),
        (Function(no_numbers_in_halves), "NaN"),
    ],
    ids=["refusing", "not numbers"],
)
def test_a_model_that_answers_in_float32_alone_is_told_so(network, why):
    model, image = cohen(network, sigma=0.5), torch.rand(3, 8, 8)
    for ask in (certify, predict):
        ask(model, image, seed=0, precision="float32")
        with pytest.raises(ValueError, match=rf"bfloat16 \(.*{why}[^\n]*float32"):
            ask(model, image, seed=0, precision="bfloat16")


def test_memory_that_is_short_is_not_blamed_on_the_precision():
    def full(x):
        if torch.is_autocast_enabled("cpu"):
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
        return x.flatten(1)[:, :3]

    with pytest.raises(RuntimeError, match="can't allocate"):
        fast_copy(cohen(Function(full), sigma=0.5), torch.rand(2, 3, 8, 8))


def fast(model, images=None):
    """The faster copy, with any warning as an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fast_copy(copy_model(model), torch.rand(2, 3, 16, 16) if images is None else images)


class Own(nn.Module):
    """A user's network with a known one inside."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, image):
        return self.inner(image)


def test_known_networks_anywhere_in_a_model_run_in_bf16_and_the_plain_model_stays():
    model = copy_model(adaptive(nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), Own(plain())), UNet(4), sigma=0.5))
    parts = list(model.modules())
    faster = fast(model)
    assert type(faster.classifier[1].inner) is type(faster.mechanism.steps[1].mask) is Half
    assert all(part is other for part, other in zip(parts, model.modules(), strict=True))
    assert not any(isinstance(part, Half) for part in parts)


@pytest.mark.parametrize("change", ["hook", "forward", "layer", "part used twice"])
def test_networks_that_were_changed_by_hand_keep_what_was_changed(change):
    """A copy of what is changed, or the network itself: its answers are those of the plain model either way."""
    torch.manual_seed(0)
    network = cifar_resnet(14, 4)
    if change == "hook":
        network.layer1[0].register_forward_hook(lambda part, args, out: -out)
    elif change == "forward":
        network.layer1[0].forward = lambda x: 3 - x
    elif change == "layer":
        network.layer2[0].bn1 = nn.GroupNorm(4, 32)
    else:
        network.layer1[1] = network.layer1[0]
    model, images = copy_model(cohen(network, sigma=0.5)), torch.rand(100, 3, 16, 16)
    with torch.inference_mode():
        exact = model.classifier(images)
        half = fast(model).classifier(images).float()
    assert (half - exact).norm() <= 0.05 * (exact - exact.mean(dim=0)).norm() + 0.02 * exact.norm()


@pytest.mark.parametrize(
    "change",
    [
        lambda logits: logits.flip(1),
        lambda logits: logits + torch.tensor([1.0, 0.0, 0.0, 0.0]),
        lambda logits: logits * torch.nan,
        lambda logits: logits.repeat(1, 2),
        lambda logits: logits + "a part that the faster network lacks",
    ],
    ids=["other order", "one class shifted", "not numbers", "other classes", "failing"],
)
def test_a_faster_copy_that_answers_differently_is_not_used(monkeypatch, change):
    def accelerate(model, images, *, least):
        faster = copy_model(model)
        before = faster.classifier
        faster.classifier = Function(lambda x: change(before(x)))
        return faster

    monkeypatch.setattr(model_copy, "accelerate", accelerate)
    model, images = copy_model(cohen(plain(), sigma=0.5)), torch.rand(2, 3, 16, 16)
    with pytest.warns(AccelerationWarning, match="runs as it is"):
        assert fast_copy(model, images) is model


def test_a_model_without_known_networks_runs_as_it_is_without_a_word():
    model = cohen(Function(lambda x: x.flatten(1)[:, :4]), sigma=0.5).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fast_copy(model, torch.rand(2, 3, 16, 16)) is model


@pytest.mark.false_alarm(1e-7)
def test_votes_in_bf16_and_float32_agree_in_distribution(count, seed):
    torch.manual_seed(0)
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), small_cnn(4, width=8))
    model = SmoothedClassifier(compose(Gaussian(0.7), MaskedGaussian(0.7, UNet(4))), minimum_variance, classifier)
    image = torch.rand(1, 3, 16, 16)
    with torch.no_grad():  # statistics of such images, so that the noise matters, and no class far ahead
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None
        model.train()(image.expand(200, -1, -1, -1), torch.Generator().manual_seed(0))
        logits = model.eval()(image.expand(500, -1, -1, -1), torch.Generator().manual_seed(0))
        classifier[1][-1].bias -= logits.mean(dim=0)
    half = count(fast(model, image), image, n=4000, seed=seed, precision="bfloat16")[0]
    full = count(model, image, n=4000, seed=seed, first_block=40)[0]
    table = np.stack([half, full])[:, (half + full) >= 10]
    assert table.shape[1] > 1
    assert chi2_contingency(table).pvalue > 1e-8
