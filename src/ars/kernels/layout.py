"""How weights are laid out for the kernels, and the choices a kernel leaves open."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Tiling:
    """How a stage is cut: ``group`` images a program, patches of tall x wide pixels, ``rows`` patches a tile."""

    group: int
    tall: int
    wide: int
    rows: int
    warps: int
    stages: int  # loads in flight: 1 goes through the L1 cache, more through asynchronous copies
    resident: int  # programs a multiprocessor
    registers: int | None = None  # the most a thread may take; fewer let more programs in


@dataclass(frozen=True)
class ConvTile:
    """How one convolution is cut: ``rows`` patches of tall x wide pixels by ``columns`` outputs a program.

    ``depth`` channels are multiplied at a time; patches wider than a pixel take all of a pixel's channels.
    """

    tall: int
    wide: int
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def depth_of(self, channels: int) -> int:
        """How many of these channels a step of the product takes."""
        return channels if self.wide > 1 else min(channels, self.depth)


def banded(weight: Float[Tensor, "o i side side"], *, tall: int, wide: int) -> Float[Tensor, "taps k n"]:
    """The matrix from the pixels around a patch, one more on each side for a 3x3 kernel, to its tall x wide outputs.

    Output pixel (p, q) reads input pixel (r, s) with weight[:, :, r - p, s - q] where that exists, else 0. A tap is a
    row r of input pixels for wide > 1, and one pixel (r, s) for wide = 1.
    """
    outputs, inputs, side, _ = weight.shape
    high, broad = tall + side - 1, wide + side - 1
    matrix = weight.new_zeros(high, broad, inputs, tall, wide, outputs)
    for p in range(tall):
        for q in range(wide):
            matrix[p : p + side, q : q + side, :, p, q, :] = weight.permute(2, 3, 1, 0)
    return matrix.reshape(high * broad if wide == 1 else high, -1, tall * wide * outputs)


def widened(weight: Float[Tensor, "o i side side"], inputs: int) -> Float[Tensor, "o inputs side side"]:
    """The same filter for maps that carry channels of zeros behind their own."""
    return F.pad(weight, (0, 0, 0, 0, 0, inputs - weight.shape[1]))


def programs(tiling: Tiling, device: torch.device) -> int:
    """The size of a grid that is resident as a whole."""
    if device.type != "cuda":
        return 2
    return tiling.resident * torch.cuda.get_device_properties(device).multi_processor_count
