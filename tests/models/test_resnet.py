import hashlib

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ars.models import cifar_resnet, resnet50


def parameters(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("make", "shape"),
    [(lambda: cifar_resnet(8, 2), (24, 24)), (lambda: cifar_resnet(8, 2), (33, 65)), (lambda: resnet50(2), (33, 64))],
)
@torch.no_grad()
def test_takes_any_size(make, shape):
    assert make().eval()(torch.rand(2, 3, *shape)).shape == (2, 2)


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


COSTS = {110: {32: 0.51, 48: 1.14, 64: 2.03, 96: 4.56}, 50: {160: 4.2, 224: 8.2}}


@pytest.mark.parametrize(("depth", "size"), [(depth, size) for depth, sizes in COSTS.items() for size in sizes])
def test_costs_what_the_paper_reports(depth, size):
    """In GFLOP, with multiply-adds counted twice."""
    with torch.device("meta"):
        network, image = resnet50(1000) if depth == 50 else cifar_resnet(depth, 10), torch.empty(1, 3, size, size)
    with FlopCounterMode(display=False) as counter:
        network.eval()(image)
    assert counter.get_total_flops() / 1e9 == pytest.approx(COSTS[depth][size], rel=0.01)


@pytest.fixture
def resnet50_on_meta():
    with torch.device("meta"):
        return resnet50(1000)


def test_resnet50_has_torchvisions_names_shapes_and_order(resnet50_on_meta):
    """The digest is that of the lines "name shape" of the state_dict of torchvision's own resnet50."""
    lines = [f"{name} {list(value.shape)}" for name, value in resnet50_on_meta.state_dict().items()]
    assert len(lines) == 320
    assert lines[6] == "layer1.0.conv1.weight [64, 64, 1, 1]"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "614cd53ddf84966979ca9f6b3cf723cba0ad398675e7d0db3550943789819c17"
    assert parameters(resnet50_on_meta) == 25_557_032


def test_resnet50_strides_in_the_3x3(resnet50_on_meta):
    for stage in (resnet50_on_meta.layer2, resnet50_on_meta.layer3, resnet50_on_meta.layer4):
        first = stage[0]
        assert [first.conv1.stride[0], first.conv2.stride[0], first.conv3.stride[0]] == [1, 2, 1]


def test_he_init():
    torch.manual_seed(0)
    for weight in (resnet50(10).layer4[0].conv2.weight, cifar_resnet(20, 10).layer3[1].conv1.weight):
        fan_out = weight.shape[0] * 9
        assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        *((lambda depth=depth: cifar_resnet(depth, 10), f"{depth}") for depth in (2, 18, 52, 111)),
        (lambda: cifar_resnet(20, 1), "2 classes"),
        (lambda: resnet50(1), "2 classes"),
    ],
)
def test_other_depths_and_one_class_are_refused(make, named):
    with pytest.raises(ValueError, match=named):
        make()
