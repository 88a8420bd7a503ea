"""The paper's mask network: a U-Net from a noisy image to one weight per pixel."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 4
STRIDE = 2 ** (LEVELS - 1)  # between the image and the deepest level


class UNet(nn.Module):
    """w = UNet(m1): un-normalised noisy images [b, c, h, w] to weights [b, 1, h, w] in [0, 1].

    The levels have widths c, 2c, 4c, 8c with c = ``width``: 32 on CIFAR-10, 64 on CelebA, 16 on ImageNet in the paper.
    At c = 32 and 32x32, with multiply-adds counted as two operations, it takes 3% less than the paper's .30 GFLOP: the
    1x1 convolutions run before the upsampling instead of after, which gives the same function. Each weight sees at
    least 44 pixels on every side. The weights of a new network scatter around .5. An image whose sides are not
    divisible by 8, or are below 16, gets a border first.
    """

    def __init__(self, width: int, in_channels: int = 3) -> None:
        super().__init__()
        if width < 1 or in_channels < 1:
            raise ValueError(f"need width >= 1 and in_channels >= 1, got width={width}, in_channels={in_channels}")
        *upper, deepest = [width * 2**level for level in range(LEVELS)]
        self.encoders = nn.ModuleList(double_conv(a, b) for a, b in pairwise([in_channels, *upper]))
        self.downs = nn.ModuleList(down(c) for c in upper)
        self.bottom = double_conv(upper[-1], deepest)
        self.halvings = nn.ModuleList(nn.Conv2d(2 * c, c, 1) for c in upper)
        self.decoders = nn.ModuleList(double_conv(2 * c, c) for c in upper)
        self.to_mask = nn.Conv2d(width, 1, 1)
        self.to_mask.bias = nn.Parameter(torch.zeros(1))

    def forward(self, released: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 1 h w"]:
        """One weight per pixel, in float32 whatever the precision of the convolutions."""
        height, width = released.shape[-2:]
        (top, bottom), (left, right) = border(height), border(width)
        x, skips = released, []
        if top or bottom or left or right:  # not mirrored, because a border may be wider than the image
            x = F.pad(x, (left, right, top, bottom), mode="replicate")
        for encode, shrink in zip(self.encoders, self.downs, strict=True):
            skips.append(encode(x))
            x = shrink(skips[-1])
        x = self.bottom(x)
        for halve, decode, skip in reversed(list(zip(self.halvings, self.decoders, skips, strict=True))):
            x = decode(torch.cat([upsample(halve, x), skip], dim=1))
        weights = torch.sigmoid(self.to_mask(x).float())
        return weights[..., top : top + height, left : left + width]


def border(side: int) -> tuple[int, int]:
    """How many pixels are added before and after a side so that every level halves it.

    >>> border(32), border(28), border(5)
    ((0, 0), (2, 2), (5, 6))
    """
    added = max(2 * STRIDE, -(-side // STRIDE) * STRIDE) - side
    return added // 2, added - added // 2


def check_size(height: int, width: int) -> None:
    """Refuse images that need a border: reflect padding needs two pixels per side at the deepest level."""
    if height % STRIDE or width % STRIDE or min(height, width) < 2 * STRIDE:
        raise ValueError(
            f"the U-Net needs a height and a width divisible by {STRIDE} and at least {2 * STRIDE}, "
            f"got {height}x{width}; resize or pad the images"
        )


def double_conv(in_channels: int, out_channels: int) -> nn.Sequential:
    """Two of [3x3 convolution with reflect padding, BatchNorm, dropout of whole channels, LeakyReLU]."""
    layers: list[nn.Module] = []
    for channels in (in_channels, out_channels):
        layers += [
            reflect_conv(channels, out_channels),
            nn.BatchNorm2d(out_channels),
            nn.Dropout2d(0.3),
            nn.LeakyReLU(),
        ]
    return nn.Sequential(*layers)


def down(channels: int) -> nn.Sequential:
    """[b, c, h, w] to [b, c, h/2, w/2]: a 3x3 convolution with stride 2, BatchNorm, LeakyReLU."""
    return nn.Sequential(reflect_conv(channels, channels, stride=2), nn.BatchNorm2d(channels), nn.LeakyReLU())


def reflect_conv(in_channels: int, out_channels: int, *, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution without a bias, which the BatchNorm after it makes redundant."""
    return nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, padding_mode="reflect", bias=False)


def upsample(conv1x1: nn.Module, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b half 2*h 2*w"]:
    """conv1x1(nearest upsampling of x); the two commute, and on the small map the convolution costs a quarter."""
    return F.interpolate(conv1x1(x), scale_factor=2, mode="nearest")
