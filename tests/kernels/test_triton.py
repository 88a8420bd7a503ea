"""Every Triton program against torch in float32, on tiny sizes."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytest.importorskip("triton")

from ars.kernels.fold import fold
from ars.kernels.fused_resnet import FusedResNet, Shrink, Stage
from ars.kernels.fused_resnet50 import Block, FusedResNet50, _paired_stem
from ars.kernels.fused_unet import FusedUNet
from ars.kernels.layers import Conv
from ars.kernels.layout import ConvTile, Tiling
from ars.kernels.pixels import Finish, FromImages, as_pixels
from ars.models import CifarResNet, Normalize, UNet, resnet50
from ars.models.resnet import BasicBlock, Bottleneck
from ars.smoothing import Release, last, minimum_variance

LAYOUTS = [torch.contiguous_format, torch.channels_last]  # runs are built in the second
SMALL = ConvTile(1, 1, 16, 16, 16, 4, 2)


@pytest.fixture(autouse=True)
def no_gradient():
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.inference_mode():
        yield


def close(got, wanted):
    """Every image by itself: one that is wrong must not hide among those that are right."""
    # Triton multiplies float32 in TF32 on a GPU
    tolerance = 1e-4 if got.device.type == "cpu" else 5e-3
    assert got.shape == wanted.shape
    for one, other in zip(got.float(), wanted, strict=True):
        assert (one - other).norm() <= tolerance * other.norm() + 1e-6


@pytest.mark.parametrize("tile", [SMALL, ConvTile(1, 2, 16, 64, 16, 4, 2), ConvTile(2, 2, 32, 32, 16, 4, 2)])
@pytest.mark.parametrize("padding_mode", ["zeros", "reflect"])
def test_a_convolution(device, poisoned, tile, padding_mode):
    conv = nn.Conv2d(16, 16, 3, padding=1, padding_mode=padding_mode).to(device)
    x = torch.randn(3, 4, 6, 16, device=device)
    residual = torch.randn(3, 4, 6, 16, device=device)
    layer = Conv(conv, torch.float32, slope=0.1, tile=tile)
    wanted = F.leaky_relu(conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) + residual, 0.1)
    close(poisoned(lambda: layer(x, residual=residual)), wanted)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 2)])
def test_a_strided_or_small_convolution(device, poisoned, kernel, stride):
    conv = nn.Conv2d(16, 32, kernel, stride, padding=kernel // 2).to(device)
    x = torch.randn(3, 4, 6, 16, device=device)
    layer = Conv(conv, torch.float32, slope=0.0, tile=SMALL)
    close(poisoned(lambda: layer(x)), conv(x.permute(0, 3, 1, 2)).relu().permute(0, 2, 3, 1))


def test_upsampling_concatenation_and_head(device, poisoned):
    conv = nn.Conv2d(32, 16, 3, padding=1, padding_mode="reflect").to(device)
    head = nn.Conv2d(16, 1, 1).to(device)
    low, skip = torch.randn(2, 2, 3, 16, device=device), torch.randn(2, 4, 6, 16, device=device)
    layer = Conv(conv, torch.float32, slope=0.01, tile=ConvTile(1, 2, 16, 32, 16, 4, 2), split=16, head=head)
    joined = torch.cat([F.interpolate(low.permute(0, 3, 1, 2), scale_factor=2), skip.permute(0, 3, 1, 2)], 1)
    wanted = torch.sigmoid(head(F.leaky_relu(conv(joined)))).squeeze(1)
    close(poisoned(lambda: layer(low, second=skip, up=2)), wanted)


@pytest.mark.parametrize("tiling", [Tiling(1, 2, 2, 16, 4, 2, 2), Tiling(2, 1, 1, 32, 4, 1, 2)])
def test_a_stage(device, poisoned, disturb, tiling):
    """Five images, three or two of a time: the programs loop, and the last group is not full."""
    blocks = fold(disturb(nn.Sequential(BasicBlock(16, 16), BasicBlock(16, 16))))
    stage = Stage(list(blocks), torch.float32, tiling)
    x = torch.rand(5, 4, 4, 16, device=device)
    close(poisoned(lambda: stage(x)), blocks(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


def test_a_block_that_shrinks(device, poisoned, disturb):
    block = disturb(BasicBlock(16, 32, stride=2))
    shrink = Shrink(fold(block), torch.float32)
    x = torch.rand(2, 4, 4, 16, device=device)
    close(poisoned(lambda: shrink(x)), block(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


@pytest.mark.parametrize(("inputs", "stride"), [(64, 1), (32, 2)])
def test_a_bottleneck(device, poisoned, disturb, inputs, stride):
    block = disturb(Bottleneck(inputs, 16, stride=stride))
    fused = Block(fold(block), torch.float32)
    x = torch.rand(2, 4, 4, inputs, device=device)
    close(poisoned(lambda: fused(x)), block(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


def test_the_stem_on_two_by_two_pixels_is_the_stem(device):
    conv = nn.Conv2d(3, 16, 7, stride=2, padding=3).to(device)
    x = torch.randn(2, 3, 12, 8, device=device)
    pairs = F.pixel_unshuffle(F.pad(x, (0, 0, 0, 0, 0, 1)), 2).view(2, 4, 4, 6, 4).transpose(1, 2).reshape(2, 16, 6, 4)
    close(_paired_stem(conv)(pairs)[..., :6, :4], conv(x))


@pytest.mark.parametrize("combine", [last, minimum_variance])
def test_releases_become_normalised_pixels(device, poisoned, combine):
    one = torch.ones(1, 1, 1, 1, device=device)
    first = Release(torch.randn(3, 3, 5, 7, device=device), one, 0.4 * one)
    mask = torch.rand(3, 1, 5, 7, device=device)
    mask[0, 0, 0] = 0
    second = Release(torch.randn(3, 3, 5, 7, device=device), mask, torch.rand(3, 1, 1, 1, device=device) + 0.1)
    normalize = Normalize([0.1, 0.2, 0.3], [0.5, 0.6, 0.7]).to(device)
    finish = Finish(combine, normalize, torch.float32)
    for releases in ([first, second], [first], [first, second, first]):
        pixels = poisoned(lambda releases=releases: finish(releases))
        close(pixels[..., :3], normalize(combine(releases)).permute(0, 2, 3, 1))
        assert not pixels[..., 3].any()


def test_images_become_pixels(device):
    x = torch.rand(2, 3, 4, 4, device=device)
    one = torch.ones(1, 1, 1, 1, device=device)
    pixels = as_pixels([Release(x, one, one)], torch.float32)
    assert torch.equal(pixels[..., :3], x.permute(0, 2, 3, 1))


def test_a_unet_for_images_that_are_too_small_reads_no_other_draw(device, disturb):
    fused = FromImages(FusedUNet(disturb(UNet(16)), torch.float32), torch.float32)
    with pytest.raises(ValueError, match="divisible by 8 and at least 16, got 8x8"):
        fused(torch.rand(2, 3, 8, 8, device=device))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("make", "fuse", "shape"),
    [
        (lambda: UNet(16), FusedUNet, (2, 3, 16, 16)),
        (lambda: CifarResNet(2, 10), FusedResNet, (3, 3, 8, 8)),
        (lambda: resnet50(10), partial(FusedResNet50, stages=1), (2, 3, 32, 32)),
        pytest.param(lambda: resnet50(10), partial(FusedResNet50, stages=4), (2, 3, 32, 32), marks=pytest.mark.slow),
    ],
    ids=["U-Net", "CIFAR ResNet", "a stage of ResNet-50", "ResNet-50"],
)
def test_a_whole_network(device, poisoned, disturb, make, fuse, shape, layout):
    network, x = disturb(make()).to(memory_format=layout), torch.rand(shape, device=device)
    fused = FromImages(fuse(network, torch.float32), torch.float32)
    close(poisoned(lambda: fused(x)), network(x))
