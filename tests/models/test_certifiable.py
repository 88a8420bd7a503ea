"""What every network must hold to before its votes can be counted."""

import copy
from functools import cache

import pytest
import torch
from torch import nn

from ars.models import Normalize, StaticMask, UNet, cifar_resnet, resnet50, small_cnn

SIZE = 32
NETWORKS = {
    "unet": lambda: UNet(4),
    "static_mask": lambda: StaticMask(SIZE, SIZE),
    "cifar_resnet": lambda: nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), cifar_resnet(14, 10)),
    "resnet50": lambda: resnet50(10),
    "small_cnn": lambda: small_cnn(10, width=8),
}


def images(count):
    return torch.rand(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


@cache
def trained(name):
    """Fresh weights, and BatchNorm statistics from a few batches as after training."""
    torch.manual_seed(0)
    network = NETWORKS[name]().train()
    with torch.no_grad():
        for _ in range(3):
            network(torch.rand(4, 3, SIZE, SIZE))
    return network


@pytest.fixture(params=NETWORKS)
def network(request):
    return copy.deepcopy(trained(request.param))


def test_eval_mode_is_deterministic_and_leaves_state_and_input_alone(network):
    network.eval()
    before, x = copy.deepcopy(network.state_dict()), images(2)
    torch.manual_seed(1)
    first, state = network(x), torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())  # no random number was drawn
    torch.manual_seed(2)
    assert torch.equal(first, network(x))
    assert torch.equal(x, images(2))
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_eval_mode_does_not_look_at_the_rest_of_the_batch(network):
    network.eval()
    x = images(4)
    with torch.no_grad():
        alone = torch.cat([network(image[None]) for image in x])
        crowd = network(torch.cat([x, 100 * torch.ones(3, 3, SIZE, SIZE)]))[:4]
    torch.testing.assert_close(alone, crowd, atol=1e-4, rtol=1e-4)


def test_every_parameter_gets_a_gradient(network):
    output = network(images(4))
    output.backward(torch.randn(output.shape))
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_channels_last_gives_the_same_output_and_is_kept_by_convolutions(network):
    network.eval()
    x = images(2)
    layers = [module for module in network.modules() if isinstance(module, nn.Conv2d | nn.BatchNorm2d)]
    kept = []
    with torch.no_grad():
        expected = network(x)
        for module in layers:
            module.register_forward_hook(
                lambda _, args, output: kept.append(output.is_contiguous(memory_format=torch.channels_last))
            )
        x = x.contiguous(memory_format=torch.channels_last)
        last = network.to(memory_format=torch.channels_last)(x)
        network.train()(x)
    torch.testing.assert_close(last, expected, atol=1e-4, rtol=1e-4)
    assert kept == [True] * 2 * len(layers)


def test_trains_and_runs_under_bf16_autocast(network):
    with torch.autocast("cpu", torch.bfloat16):
        output = network(images(4))
    output.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    network.eval()
    with torch.no_grad():
        exact = network(images(2))
        with torch.autocast("cpu", torch.bfloat16):
            close = network(images(2))
    assert (close.float() - exact).abs().max() < 0.05 * exact.abs().max()
