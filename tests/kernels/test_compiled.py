"""Networks in bf16, folded: nothing but rounding changes."""

import pytest
import torch
from torch import nn

from ars.kernels.compiled import Half, ReflectConv
from ars.kernels.fold import fold
from ars.models import UNet, cifar_resnet, resnet50, small_cnn


@pytest.mark.parametrize(
    "make", [lambda: small_cnn(10, width=8), lambda: cifar_resnet(8, 10), lambda: resnet50(4), lambda: UNet(8)]
)
@torch.no_grad()
def test_folding_batchnorm_changes_nothing_but_rounding(make, disturb, device):
    torch.manual_seed(0)
    network, x = disturb(make()), torch.rand(4, 3, 24, 24, device=device)
    folded = fold(network)
    assert torch.allclose(folded(x), network(x), rtol=1e-3, atol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert any(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@torch.no_grad()
def test_a_layer_that_is_used_twice_stays_where_it_is():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 4, 1), relu, nn.Conv2d(4, 2, 1), relu, nn.BatchNorm2d(2)).eval()
    network[2].weight.neg_()  # the ReLU cuts most of it
    network[4].running_mean.fill_(0.3)
    x = torch.rand(2, 3, 6, 6)
    assert torch.allclose(fold(network)(x), network(x), atol=1e-6)
    assert torch.allclose(Half(network)(x).float(), network(x), atol=0.05)


@pytest.mark.parametrize("stride", [1, 2])
def test_reflect_padding_is_torchs(stride):
    conv = nn.Conv2d(3, 5, 3, stride, padding=1, padding_mode="reflect")
    x = torch.rand(2, 3, 6, 8)
    wanted = conv(x)
    assert torch.allclose(ReflectConv(conv)(x), wanted, atol=1e-6)


def test_the_last_layer_stays_in_float32_and_exact():
    network = small_cnn(10, width=8)
    half = Half(network)
    assert half(torch.rand(2, 3, 8, 8)).dtype == torch.float32
    assert torch.equal(half.network[-1].linear.weight, network[-1].weight)
    assert half.network[0].weight.dtype == torch.bfloat16
    assert all(parameter.dtype == torch.float32 for parameter in network.parameters())


def test_a_network_is_compiled_for_one_size_of_batch_at_a_time(monkeypatch):
    asked = []
    monkeypatch.setattr("ars.kernels.compiled.can_compile", lambda: True)
    monkeypatch.setattr(torch, "compile", lambda network, dynamic: lambda x: asked.append(len(x)) or network(x))
    half = Half(small_cnn(10, width=8))
    plain = [half(torch.ones(size, 3, 8, 8)) for size in (2, 3, 4)]
    half.compile_for(2)
    half.compile_for(4)
    made = dict(half.compiled)
    half.compile_for(2)
    assert half.compiled == made
    again = [half(torch.ones(size, 3, 8, 8)) for size in (2, 3, 4)]
    assert asked == [2, 4]
    assert all(torch.equal(one, two) for one, two in zip(plain, again, strict=True))
