"""Layers on NHWC maps with one kernel launch each; made from torch's layers, frozen, on their device."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.kernels.fold import weights
from ars.kernels.layout import ConvTile, banded, widened

RGB = 4  # channels of an image, padded with zeros as in triton.pixels


def tile_for(conv: nn.Conv2d) -> ConvTile:
    """The tile that was fastest on an H200 for layers of about this size (benchmarks/tiles.py)."""
    if conv.stride[0] == 1 and conv.kernel_size[0] == 3 and conv.out_channels <= 16:
        return ConvTile(2, 2, 128, 64, 64, 4, 2)
    if conv.stride[0] == 1 and conv.kernel_size[0] == 3 and conv.out_channels <= 32 and conv.in_channels <= 64:
        return ConvTile(1, 2, 128, 64, 64, 4, 2)
    return ConvTile(1, 1, 128, 128, 64, 8 if conv.out_channels >= 128 else 4, 3)


class Conv(nn.Module):
    """One convolution with its bias and activation; if split > 0, of two maps, the first with ``split`` channels.

    The activation is a for a > 0 and slope * a below, with one slope or one per channel. A head is a 1x1 convolution
    to one channel and a sigmoid.
    """

    def __init__(
        self,
        conv: nn.Conv2d,
        dtype: torch.dtype,
        *,
        slope: float | Tensor,
        tile: ConvTile,
        split: int = 0,
        head: nn.Conv2d | None = None,
    ) -> None:
        super().__init__()
        from ars.kernels.triton.conv import Filter  # imports triton

        weight, bias = weights(conv)
        if weight.shape[1] < RGB:
            weight = widened(weight, RGB)
        parts = [weight[:, :split], weight[:, split:]] if split else [weight]
        matrices = [banded(part, tall=tile.tall, wide=tile.wide).to(dtype) for part in parts]
        # everything after the matrix product stays in float32
        self.weights = Filter(
            first=matrices[0],
            second=matrices[1] if split else None,
            bias=bias.float(),
            slope=torch.as_tensor(slope, dtype=torch.float32, device=bias.device).expand(len(bias)).contiguous(),
            head=None if head is None else torch.cat([part.flatten() for part in weights(head)]).float(),
        )
        self.outputs, self.inputs = len(bias), weight.shape[1]
        self.tile, self.stride, self.kernel = tile, conv.stride[0], weight.shape[2]
        self.zero_padded = conv.padding_mode == "zeros"

    def forward(
        self, x: Tensor, *, second: Tensor | None = None, residual: Tensor | None = None, up: int = 1
    ) -> Float[Tensor, "b h w c"] | Float[Tensor, "b h w"]:
        """The layer on x [b, h, w, c], upsampled and followed by the channels of second; plus the residual."""
        from ars.kernels.triton.conv import run_conv

        return run_conv(
            x,
            self.weights,
            self.tile,
            channels=self.inputs if second is None else self.inputs - second.shape[-1],
            second=second,
            residual=residual,
            up=up,
            stride=self.stride,
            kernel=self.kernel,
            zero_padded=self.zero_padded,
        )
