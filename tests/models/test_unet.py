import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from ars.models import UNet
from ars.models.unet import upsample


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 16, 16), (3, 24, 24), (3, 16, 40), (1, 16, 16)])
def test_gives_one_weight_in_01_per_pixel(channels, height, width):
    mask = UNet(4, in_channels=channels)(3 * torch.randn(2, channels, height, width))
    assert mask.shape == (2, 1, height, width)
    assert mask.min() >= 0
    assert mask.max() <= 1


def test_saturated_masks_stay_in_01():
    net = UNet(4).eval()
    nn.init.constant_(net.to_mask.bias, 1e4)
    assert net(torch.rand(1, 3, 16, 16)).max() == 1


@pytest.mark.parametrize(
    ("width", "size", "gflop"),
    [(32, 32, 0.30), (32, 48, 0.68), (32, 64, 1.21), (32, 96, 2.72), (64, 160, 30), (16, 224, 3.7)],
)
def test_costs_what_the_paper_reports(width, size, gflop):
    """Multiply-adds count twice there, and the 1x1 convolutions run after the upsampling, at 4 times our cost."""
    with torch.device("meta"):
        net, image = UNet(width).eval(), torch.empty(1, 3, size, size)
    with FlopCounterMode(display=False) as counter:
        net(image)
    ours = counter.get_total_flops()
    pixels = [size**2 // 4 ** (level + 1) for level in range(3)]  # where each 1x1 convolution runs
    halvings = sum(2 * conv.weight.numel() * n for conv, n in zip(net.halvings, pixels, strict=True))
    assert (ours + 3 * halvings) / 1e9 == pytest.approx(gflop, rel=0.01)
    assert ours < gflop * 1e9


def test_parameter_count():
    """By hand: 9ab for a 3x3 convolution, 2b for its BatchNorm; a bias only in the 1x1 convolutions."""

    def double(a, b):
        return 9 * (a * b + b * b) + 4 * b

    widths = [3, 32, 64, 128, 256]
    expected = sum(double(a, b) for a, b in pairwise(widths))
    expected += sum(9 * c * c + 2 * c + 2 * c * c + c + double(2 * c, c) for c in widths[1:4]) + 33
    assert sum(p.numel() for p in UNet(32).parameters()) == expected == 1_991_969


def test_a_1x1_convolution_commutes_with_nearest_upsampling():
    conv, x = nn.Conv2d(8, 4, 1), torch.randn(2, 8, 5, 6)
    torch.testing.assert_close(upsample(conv, x), conv(F.interpolate(x, scale_factor=2, mode="nearest")))


def seen(size, row, column):
    """Which pixels of a size x size image the weight at (row, column) depends on."""
    net = UNet(2).double().eval()
    image = torch.rand(1, 3, size, size, dtype=torch.float64, requires_grad=True)
    net(image)[0, 0, row, column].backward()
    return image.grad[0].abs().sum(dim=0) > 0


@pytest.mark.parametrize(("row", "column"), [(0, 0), (31, 13), (5, 31)])
def test_every_weight_sees_all_of_a_cifar_image(row, column):
    assert seen(32, row, column).all()


@pytest.mark.parametrize("centre", range(48, 56))
def test_every_weight_sees_44_pixels_on_every_side(centre):
    window = slice(centre - 44, centre + 45)
    assert seen(104, centre, centre)[window, window].all()


def test_starts_around_a_half():
    torch.manual_seed(0)
    mask = UNet(16)(torch.rand(4, 3, 24, 24))
    assert mask.mean().item() == pytest.approx(0.5, abs=0.15)


def test_weights_have_the_digits_of_float32_whatever_the_convolutions_ran_in():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weights = UNet(4).eval()(torch.rand(1, 3, 16, 16))
    assert weights.dtype == torch.float32
    assert (weights != weights.bfloat16()).any()


def test_drops_whole_channels_in_training():
    dropouts = [module for module in UNet(4).modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    assert len(dropouts) == 14
    assert all(isinstance(module, nn.Dropout2d) and module.p == 0.3 for module in dropouts)


@pytest.mark.parametrize(("height", "width"), [(28, 28), (20, 24), (24, 17), (8, 8), (1, 5)])
def test_an_image_of_any_size_gets_the_weights_of_its_pixels_with_a_border(height, width):
    torch.manual_seed(0)
    network, x = UNet(4).eval(), torch.rand(2, 3, height, width)
    tall, wide = (max(16, 8 * math.ceil(side / 8)) for side in (height, width))
    top, left = (tall - height) // 2, (wide - width) // 2
    rows = (torch.arange(tall) - top).clamp(0, height - 1)
    columns = (torch.arange(wide) - left).clamp(0, width - 1)
    with torch.no_grad():
        whole = network(x[:, :, rows][..., columns])
        assert torch.equal(network(x), whole[..., top : top + height, left : left + width])


def test_a_width_below_one_is_refused():
    with pytest.raises(ValueError, match="width >= 1"):
        UNet(0)
