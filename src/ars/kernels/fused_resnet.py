"""CIFAR ResNets with one kernel per stage, and one kernel per convolution between the stages."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.fold import fold, weights
from ars.kernels.layers import Conv, tile_for
from ars.kernels.layout import ConvTile, Tiling, banded
from ars.models.resnet import BasicBlock, CifarResNet

# the fastest on an H200 at 32x32, 64x64 and 96x96, by benchmarks/tiles.py
TILINGS = (Tiling(1, 2, 2, 128, 4, 3, 2), Tiling(1, 1, 2, 128, 8, 2, 2, 128), Tiling(2, 1, 1, 128, 8, 3, 2, 128))


class Stage(nn.Module):
    """The blocks of a stage that keep the shape, as one kernel launch."""

    def __init__(self, blocks: Sequence[nn.Module], dtype: torch.dtype, tiling: Tiling) -> None:
        super().__init__()
        convs = [weights(getattr(block, name)) for block in blocks for name in ("conv1", "conv2")]
        self.tiling = tiling
        self.weight = torch.stack([banded(w, tall=tiling.tall, wide=tiling.wide) for w, _ in convs]).to(dtype)
        self.bias = torch.stack([b for _, b in convs]).float()
        self._scratch: dict[torch.Size, object] = {}

    def forward(self, x: Float[Tensor, "b h w c"]) -> Float[Tensor, "b h w c"]:
        """x through every block."""
        from ars.kernels.triton.resnet_stage import Scratch, run_stage  # imports triton

        shape = x.shape[1:]
        if shape not in self._scratch:
            self._scratch[shape] = Scratch(self.tiling, x)
        scratch = self._scratch[shape]
        assert isinstance(scratch, Scratch)
        return run_stage(x, self.weight, self.bias, scratch, self.tiling)


class Shrink(nn.Module):
    """A block that halves the map, in two launches; the first also computes the shortcut.

    The 1x1 convolution of the shortcut becomes a 3x3 one with zeros for the other taps, so the input is read once.
    """

    def __init__(self, block: BasicBlock, dtype: torch.dtype) -> None:
        super().__init__()
        (w1, b1), (w2, b2) = weights(block.conv1), weights(block.downsample[0])  # type: ignore[index]
        outputs, inputs = w1.shape[:2]
        both = nn.Conv2d(inputs, 2 * outputs, 3, stride=2, padding=1)
        both.weight = nn.Parameter(torch.cat([w1, F.pad(w2, (1, 1, 1, 1))]), requires_grad=False)
        both.bias = nn.Parameter(torch.cat([b1, b2]), requires_grad=False)
        slope = torch.cat([torch.zeros_like(b1), torch.ones_like(b2)])  # the shortcut is not activated
        self.both = Conv(both, dtype, slope=slope, tile=tile_for(both))
        self.last = Conv(block.conv2, dtype, slope=0.0, tile=ConvTile(1, 1, 128, 64, 64, 4, 3))

    def forward(self, x: Float[Tensor, "b h w c"]) -> Float[Tensor, "b h2 w2 c2"]:
        """relu(conv2(relu(conv1(x))) + shortcut(x))."""
        both = self.both(x)
        return self.last(both, residual=both)  # type: ignore[no-any-return]


class FusedResNet(nn.Module):
    """A frozen CIFAR ResNet in one dtype, for images whose sides are multiples of 4."""

    def __init__(self, network: CifarResNet, dtype: torch.dtype) -> None:
        super().__init__()
        folded = fold(network)
        assert isinstance(folded, CifarResNet)
        self.stem = Conv(folded.conv1, dtype, slope=0.0, tile=tile_for(folded.conv1))
        layers: list[nn.Module] = [Stage(list(folded.layer1), dtype, TILINGS[0])]
        for layer, tiling in zip((folded.layer2, folded.layer3), TILINGS[1:], strict=True):
            first, *rest = layer
            assert isinstance(first, BasicBlock)
            layers += [Shrink(first, dtype), *([Stage(rest, dtype, tiling)] if rest else [])]
        self.layers = nn.Sequential(*layers)
        self.fc = folded.fc

    def forward(self, x: Float[Tensor, "b h w 4"]) -> Float[Tensor, "b classes"]:
        """The logits, in float32: the pool and the last layer cost nothing, and bf16 logits often tie."""
        x = self.layers(self.stem(x))
        with torch.autocast(x.device.type, enabled=False):
            logits: Tensor = self.fc(x.mean(dim=(1, 2), dtype=torch.float32))
        return logits
