import hashlib

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ars.models import cifar_resnet, resnet50


def parameters(network):
    return sum(p.numel() for p in network.parameters())


def gflop(network, size):
    with FlopCounterMode(display=False) as counter:
        network.eval()(torch.empty(1, 3, size, size, device="meta"))
    return counter.get_total_flops() / 1e9


@pytest.mark.parametrize("size", [24, 32, 48, 65])
def test_cifar_resnet_takes_any_size(size):
    assert cifar_resnet(8, 10)(torch.rand(2, 3, size, size)).shape == (2, 10)


def test_resnet50_takes_any_size():
    network = resnet50(2).eval()
    with torch.no_grad():
        assert network(torch.rand(1, 3, 33, 64)).shape == (1, 2)


@pytest.mark.parametrize(("depth", "published"), [(20, 0.27e6), (32, 0.46e6), (56, 0.85e6), (110, 1.7e6)])
def test_cifar_parameter_counts_match_he_et_al(depth, published):
    """Their Table 6; the two 1x1 convolution shortcuts add 2,752 to their parameter-free ones."""
    assert parameters(cifar_resnet(depth, 10)) == pytest.approx(published, rel=0.02)


def test_resnet110_by_hand():
    network = cifar_resnet(110, 10)
    assert [len(stage) for stage in (network.layer1, network.layer2, network.layer3)] == [18, 18, 18]
    plain = 9 * 3 * 16 + 9 * (36 * 16**2 + 16 * 32 + 35 * 32**2 + 32 * 64 + 35 * 64**2) + 650
    norms = 2 * 16 + 2 * 36 * (16 + 32 + 64)
    assert parameters(network) == plain + norms + 2752 == 1_730_714


@pytest.mark.parametrize(("size", "published"), [(32, 0.51), (48, 1.14), (64, 2.03), (96, 4.56)])
def test_resnet110_costs_what_the_paper_reports(size, published):
    """With multiply-adds counted twice."""
    with torch.device("meta"):
        network = cifar_resnet(110, 10)
    assert gflop(network, size) == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(("size", "published"), [(160, 4.2), (224, 8.2)])
def test_resnet50_costs_what_the_paper_reports(size, published):
    with torch.device("meta"):
        network = resnet50(1000)
    assert gflop(network, size) == pytest.approx(published, rel=0.01)


def test_resnet50_has_torchvisions_names_shapes_and_order():
    """The digest is that of the lines "name shape" of the state_dict of torchvision's own resnet50."""
    with torch.device("meta"):
        network = resnet50(1000)
    lines = [f"{name} {list(value.shape)}" for name, value in network.state_dict().items()]
    assert len(lines) == 320
    assert lines[6] == "layer1.0.conv1.weight [64, 64, 1, 1]"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "614cd53ddf84966979ca9f6b3cf723cba0ad398675e7d0db3550943789819c17"
    assert parameters(network) == 25_557_032


def test_resnet50_strides_in_the_3x3():
    with torch.device("meta"):
        network = resnet50(1000)
    for stage in (network.layer2, network.layer3, network.layer4):
        first = stage[0]
        assert [first.conv1.stride[0], first.conv2.stride[0], first.conv3.stride[0]] == [1, 2, 1]


def test_he_init():
    torch.manual_seed(0)
    for weight in (resnet50(10).layer4[0].conv2.weight, cifar_resnet(20, 10).layer3[1].conv1.weight):
        fan_out = weight.shape[0] * 9
        assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)


@pytest.mark.parametrize("depth", [2, 18, 52, 111])
def test_other_depths_are_refused(depth):
    with pytest.raises(ValueError, match=f"{depth}"):
        cifar_resnet(depth, 10)


@pytest.mark.parametrize("make", [lambda: cifar_resnet(20, 1), lambda: resnet50(1)])
def test_one_class_is_refused(make):
    with pytest.raises(ValueError, match="2 classes"):
        make()
