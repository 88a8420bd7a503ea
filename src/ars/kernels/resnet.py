"""CIFAR ResNets with each stage as one kernel."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.fold import fold, weights
from ars.kernels.layout import Tiling, banded
from ars.models.resnet import CifarResNet


class Stage(nn.Module):
    """The blocks of a stage that keep the shape: one kernel launch."""

    weight: Tensor
    bias: Tensor

    def __init__(self, blocks: Sequence[nn.Module], tiling: Tiling) -> None:
        super().__init__()
        convs = [weights(getattr(block, name)) for block in blocks for name in ("conv1", "conv2")]
        self.tiling = tiling
        # flat, because a module that is moved to channels-last reorders every buffer of four dimensions
        matrices = [banded(w, tall=tiling.tall, wide=tiling.wide).flatten() for w, _ in convs]
        self.register_buffer("weight", torch.stack(matrices))
        self.register_buffer("bias", torch.stack([b for _, b in convs]))
        self._scratch: dict[torch.Size, object] = {}

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """x through every block."""
        from ars.kernels.stage import Scratch, run_stage  # imports triton

        shape = x.shape[1:]
        if shape not in self._scratch:
            self._scratch[shape] = Scratch(self.tiling, x)
        scratch = self._scratch[shape]
        assert isinstance(scratch, Scratch)
        return run_stage(x, self.weight, self.bias, scratch, self.tiling)


def fuse_stages(network: CifarResNet, tilings: Sequence[Tiling]) -> nn.Module:
    """A copy with folded BatchNorm whose stages are kernels; the blocks that change the shape stay as they are."""
    network = fold(network)  # type: ignore[assignment]
    for name, tiling in zip(("layer1", "layer2", "layer3"), tilings, strict=True):
        blocks = list(getattr(network, name))
        kept = 0 if name == "layer1" else 1
        setattr(network, name, nn.Sequential(*blocks[:kept], Stage(blocks[kept:], tiling)))
    return network


def reference_stage(x: Float[Tensor, "b c h w"], convs: Sequence[tuple[Tensor, Tensor]]) -> Float[Tensor, "b c h w"]:
    """What a stage computes, by torch."""
    for (w1, b1), (w2, b2) in zip(convs[::2], convs[1::2], strict=True):
        x = F.relu(x + F.conv2d(F.relu(F.conv2d(x, w1, b1, padding=1)), w2, b2, padding=1))
    return x
