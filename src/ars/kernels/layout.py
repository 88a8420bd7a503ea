"""How weights are laid out for the kernels, and the choices a kernel leaves open."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


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

    def fits(self, height: int, width: int) -> bool:
        """Whether patches of this size tile the map."""
        return height % self.tall == 0 and width % self.wide == 0


def banded(weight: Float[Tensor, "o i 3 3"], *, tall: int, wide: int) -> Float[Tensor, "taps k n"]:
    """The matrix from the (tall + 2) x (wide + 2) pixels around a patch to its tall x wide outputs.

    Output pixel (p, q) reads input pixel (r, s) with weight[:, :, r - p, s - q] where that exists, else 0. A tap is a
    row r of input pixels for wide > 1, and one pixel (r, s) for wide = 1.
    """
    outputs, inputs = weight.shape[:2]
    matrix = weight.new_zeros(tall + 2, wide + 2, inputs, tall, wide, outputs)
    for p in range(tall):
        for q in range(wide):
            matrix[p : p + 3, q : q + 3, :, p, q, :] = weight.permute(2, 3, 1, 0)
    taps = (tall + 2) * (wide + 2) if wide == 1 else tall + 2
    return matrix.reshape(taps, -1, tall * wide * outputs)


def programs(tiling: Tiling, device: torch.device) -> int:
    """The size of a grid that is resident as a whole."""
    if device.type != "cuda":
        return 2
    return tiling.resident * torch.cuda.get_device_properties(device).multi_processor_count
