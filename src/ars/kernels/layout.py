"""The layout of weights for the kernels, and the kernels' tuning parameters."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Tiling:
    """The tiling of a stage: ``group`` images per program, patches of tall x wide pixels, ``rows`` patches per tile."""

    group: int
    tall: int
    wide: int
    rows: int
    warps: int
    stages: int  # loads in flight: 1 goes through the L1 cache, more through asynchronous copies
    resident: int  # programs per multiprocessor
    registers: int | None = None  # limit per thread; fewer registers allow more programs


@dataclass(frozen=True)
class ConvTile:
    """The tiling of one convolution: ``rows`` patches of tall x wide pixels by ``columns`` outputs per program.

    ``depth`` channels are multiplied at a time; patches wider than a pixel use all channels of a pixel.
    """

    tall: int
    wide: int
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def depth_of(self, channels: int) -> int:
        """How many of these channels one step of the product uses."""
        return channels if self.wide > 1 else min(channels, self.depth)


def banded(weight: Float[Tensor, "o i side side"], *, tall: int, wide: int) -> Float[Tensor, "taps k n"]:
    """The matrix from the input pixels of a patch (with a 3x3 kernel one more on each side) to its tall x wide outputs.

    Output pixel (p, q) reads input pixel (r, s) with weight[:, :, r - p, s - q] if that exists, else 0. A tap is a row
    r of input pixels for wide > 1, and one pixel (r, s) for wide = 1.
    """
    outputs, inputs, side, _ = weight.shape
    high, broad = tall + side - 1, wide + side - 1
    matrix = weight.new_zeros(high, broad, inputs, tall, wide, outputs)
    for p in range(tall):
        for q in range(wide):
            matrix[p : p + side, q : q + side, :, p, q, :] = weight.permute(2, 3, 1, 0)
    return matrix.reshape(high * broad if wide == 1 else high, -1, tall * wide * outputs)


def widened(weight: Float[Tensor, "o i side side"], inputs: int) -> Float[Tensor, "o inputs side side"]:
    """The same filter for maps padded with channels of zeros."""
    return F.pad(weight, (0, 0, 0, 0, 0, inputs - weight.shape[1]))


def programs(tiling: Tiling, device: torch.device) -> int:
    """The size of a grid that is completely resident."""
    if device.type != "cuda":
        return 2
    return tiling.resident * torch.cuda.get_device_properties(device).multi_processor_count
