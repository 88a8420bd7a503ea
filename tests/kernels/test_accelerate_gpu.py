"""Networks made faster on a CUDA device against the same in float32."""

import jaxtyping
import pytest
import torch
from torch import nn

from ars.kernels.accelerate import accelerate, compile_for
from ars.kernels.compiled import Half
from ars.kernels.pixels import FromImages
from ars.methods.cohen import cohen
from ars.models import UNet, cifar_resnet, resnet50, small_cnn

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def exact_reference():
    torch.manual_seed(0)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    with torch.inference_mode():
        yield
    torch.backends.cudnn.allow_tf32 = before


def disturbed(network, size):
    """BatchNorm statistics of random images, then disturbed, so that folding has something to fold."""
    network = network.cuda()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            module.weight.uniform_(0.5, 1.0)
            module.bias.normal_(0, 0.1)
    network.train()(torch.rand(16, 3, size, size, device="cuda"))
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean += 0.1 * torch.randn_like(module.running_mean)
            module.running_var *= torch.empty_like(module.running_var).uniform_(0.8, 1.25)
    return network.eval()


def faster(network, x):
    model = accelerate(cohen(network, sigma=0.5), x, least=100)
    assert model is not None
    return model.classifier


@pytest.mark.parametrize(
    ("make", "size", "tolerance"),
    [
        (lambda: UNet(32), 32, 0.02),
        (lambda: UNet(32), 64, 0.02),
        (lambda: UNet(16), 224, 0.02),
        (lambda: UNet(32), 48, 0.02),
        (lambda: cifar_resnet(20, 10), 32, 0.1),
        (lambda: cifar_resnet(20, 10), 96, 0.1),
        (lambda: cifar_resnet(110, 10), 32, 0.3),
        (lambda: resnet50(10), 224, 0.15),
        (lambda: resnet50(10), 64, 0.15),
    ],
)
def test_kernels_agree_with_float32_on_every_image(make, size, tolerance, poisoned):
    pytest.importorskip("triton")
    network = disturbed(make(), size)
    x = torch.rand(150, 3, size, size, device="cuda")
    fast = faster(network, x)
    assert isinstance(fast, FromImages)
    got = poisoned(lambda: fast(x)).float()
    wanted = torch.cat([network(part) for part in x.split(50)])
    off = (got - wanted).flatten(1).norm(dim=1) / wanted.flatten(1).norm(dim=1)
    assert off.isfinite().all()
    assert off.max() <= tolerance


def test_a_network_without_kernels_runs_in_half_precision():
    network = disturbed(UNet(64), 48)
    x = torch.rand(150, 3, 48, 48, device="cuda")
    fast = faster(network, x)
    assert isinstance(fast, Half)
    assert (fast(x).float() - network(x)).abs().max() < 0.02


@pytest.mark.parametrize(("make", "size"), [(lambda: small_cnn(10), 32), (lambda: resnet50(10), 64)])
def test_what_has_no_kernels_is_compiled_and_answers_the_same(make, size, monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # the compiler cannot trace the checks of types
    network, x = disturbed(make(), size), torch.rand(1000, 3, size, size, device="cuda")
    model = accelerate(cohen(network, sigma=0.5), x, least=100)
    plain = model.classifier(x)
    [half] = [part for part in model.modules() if isinstance(part, Half)]
    compile_for(model, 1000)
    assert list(half.compiled) == [1000]
    assert (model.classifier(x) - plain).norm() <= 0.02 * plain.norm()
