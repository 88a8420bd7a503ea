"""The fused ResNet-50."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.compiled import Half
from ars.kernels.fold import fold, weights
from ars.kernels.layers import RGB, Conv
from ars.kernels.layout import ConvTile
from ars.models.resnet import Bottleneck, ResNet50

TILE = ConvTile(1, 1, 128, 128, 64, 8, 3)
STAGES = ("layer1", "layer2", "layer3", "layer4")


class Block(nn.Module):
    """A bottleneck block in three launches, four where the shape changes."""

    def __init__(self, block: Bottleneck, dtype: torch.dtype) -> None:
        super().__init__()
        self.one = Conv(_conv(block.conv1), dtype, slope=0.0, tile=TILE)
        self.two = Conv(_conv(block.conv2), dtype, slope=0.0, tile=TILE)
        self.three = Conv(_conv(block.conv3), dtype, slope=0.0, tile=TILE)
        self.shortcut: nn.Module = nn.Identity()
        if isinstance(block.downsample, nn.Sequential):
            self.shortcut = Conv(_conv(block.downsample[0]), dtype, slope=1.0, tile=TILE)

    def forward(self, x: Float[Tensor, "b h w c"]) -> Float[Tensor, "b h2 w2 c2"]:
        """relu(residual(x) + shortcut(x))."""
        return self.three(self.two(self.one(x)), residual=self.shortcut(x))  # type: ignore[no-any-return]


class FusedResNet50(nn.Module):
    """A frozen ResNet-50 for images whose sides are multiples of 4; the first ``stages`` of 4 stages use kernels."""

    def __init__(self, network: ResNet50, dtype: torch.dtype, *, stages: int = 1) -> None:
        super().__init__()
        folded = fold(network)
        assert isinstance(folded, ResNet50)
        self.stem = Conv(_paired_stem(_conv(folded.conv1)), dtype, slope=0.0, tile=TILE)
        kernels = [block for name in STAGES[:stages] for block in _blocks(getattr(folded, name))]
        self.blocks = nn.Sequential(*(Block(block, dtype) for block in kernels))
        rest = [getattr(folded, name) for name in STAGES[stages:]]
        tail = nn.Sequential(*rest, nn.AdaptiveAvgPool2d(1), nn.Flatten(), folded.fc)
        self.tail = Half(tail) if dtype == torch.bfloat16 else tail

    def forward(self, x: Float[Tensor, "b h w 4"]) -> Float[Tensor, "b classes"]:
        """The logits."""
        images, height, width, channels = x.shape
        # merge 2x2 pixels into one, so that the 7x7 convolution with stride 2 becomes a 4x4 one without stride
        x = x.view(images, height // 2, 2, width // 2, 2, channels).transpose(2, 3)
        x = self.stem(x.reshape(images, height // 2, width // 2, 4 * channels))
        x = F.max_pool2d(x.permute(0, 3, 1, 2), 3, stride=2, padding=1)
        x = self.blocks(x.permute(0, 2, 3, 1).contiguous())
        return self.tail(x.permute(0, 3, 1, 2))  # type: ignore[no-any-return]


def _paired_stem(conv: nn.Conv2d) -> nn.Conv2d:
    """The 7x7 convolution with stride 2 as a 4x4 one on merged 2x2 pixels, row by row, each with RGB channels."""
    weight, bias = weights(conv)
    # with a row and a column of zeros in front, the kernel is 8x8 and starts at an even pixel
    weight = F.pad(weight, (1, 0, 1, 0, 0, RGB - weight.shape[1]))
    outputs = len(weight)
    weight = weight.view(outputs, RGB, 4, 2, 4, 2).permute(0, 3, 5, 1, 2, 4).reshape(outputs, 4 * RGB, 4, 4)
    stem = nn.Conv2d(4 * RGB, outputs, 4, padding=2)
    stem.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
    stem.bias = nn.Parameter(bias, requires_grad=False)
    return stem


def _blocks(stage: nn.Module) -> Iterator[Bottleneck]:
    for block in stage.children():
        assert isinstance(block, Bottleneck)
        yield block


def _conv(module: nn.Module) -> nn.Conv2d:
    assert isinstance(module, nn.Conv2d)
    return module
