"""3x3 convolutions with few and equally many input and output channels, and their gradients: zero padding, NHWC.

With 16 channels a product is too narrow for the tensor cores, and libraries are far below the memory bandwidth. As in
``stage``, a row of the product computes a patch of tall x wide pixels with banded weights. The gradient of the input is
the convolution with the rotated filter. The gradient of the filter multiplies the pixels around each pair of pixels
with the pair's gradient and picks the 9 taps out of the sums.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ars.kernels.triton.conv import _product


@dataclass(frozen=True)
class NarrowTile:
    """The tiling of the three products: ``rows`` patches of tall x wide pixels at a time."""

    tall: int
    wide: int
    rows: int
    warps: int
    stages: int
    gradient_rows: int = 128
    gradient_warps: int = 4
    gradient_parts: int = 264
    gradient_stages: int = 2

    def fits(self, height: int, width: int) -> bool:
        """Whether patches of this size tile the map."""
        return height % self.tall == 0 and width % max(self.wide, 2) == 0


@triton.jit
def band_kernel(
    weight, out, total, C: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr, TURN: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out [(TALL + 2) (WIDE + 2) C, TALL WIDE C]: layout.banded of weight [C, C, 3, 3], or of the rotated weight."""
    N: tl.constexpr = TALL * WIDE * C
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k, n = at // N, at % N
    pixel, i = k // C, k % C
    patch, o = n // C, n % C
    ky = pixel // (WIDE + 2) - patch // WIDE
    kx = pixel % (WIDE + 2) - patch % WIDE
    inside = (at < total) & (ky >= 0) & (ky < 3) & (kx >= 0) & (kx < 3)
    if TURN:
        source = (i * C + o) * 9 + (2 - ky) * 3 + 2 - kx
    else:
        source = (o * C + i) * 9 + ky * 3 + kx
    value = tl.load(weight + source, mask=inside, other=0.0)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < total)


@triton.jit
def narrow_kernel(
    source, weight, sums, out, total,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, SUMS: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """out = conv(source); with SUMS also sums [programs, 2, C] of the results and of their squares."""
    N: tl.constexpr = TALL * WIDE * C
    row = tl.program_id(0) * M + tl.arange(0, M)
    inside = row < total
    row = tl.where(inside, row, 0)
    n = tl.arange(0, N)
    down, across = row // (W // WIDE), row % (W // WIDE)
    image, y = down // (H // TALL), down % (H // TALL) * TALL
    x = across * WIDE
    acc = tl.zeros((M, N), tl.float32)
    acc = _product(acc, source, weight, image, y - 1, x - 1, n, C, C, H, W, 1, N, 3, TALL, WIDE, C, True, STAGES)
    spread = n // (WIDE * C) * (W * C) + n % (WIDE * C)
    there = out + ((image * H + y) * W + x)[:, None] * C + spread[None, :]
    tl.store(there, acc.to(out.dtype.element_ty), mask=inside[:, None])
    if SUMS:
        acc = tl.where(inside[:, None], acc, 0.0)
        one = tl.sum(tl.reshape(tl.sum(acc, axis=0), (TALL * WIDE, C)), axis=0)
        two = tl.sum(tl.reshape(tl.sum(acc * acc, axis=0), (TALL * WIDE, C)), axis=0)
        at = sums + tl.program_id(0) * 2 * C + tl.arange(0, C)
        tl.store(at, one)
        tl.store(at + C, two)


@triton.jit
def filter_gradient_kernel(
    source, g, sums, total,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """sums [parts, 3, 4 C, 2 C]: the 4 pixels above, at or below each pair, by program, times the pair's gradient."""
    tap = tl.program_id(0) % 3
    part = tl.program_id(0) // 3
    parts = tl.num_programs(0) // 3
    k = tl.arange(0, 4 * C)
    n = tl.arange(0, 2 * C)
    acc = tl.zeros((4 * C, 2 * C), tl.float32)
    for tile in tl.range(part, tl.cdiv(total, M), parts, num_stages=STAGES):
        pair = tile * M + tl.arange(0, M)
        line, x = pair // (W // 2), pair % (W // 2) * 2
        image, y = line // H, line % H + tap - 1
        column = x[:, None] - 1 + (k // C)[None, :]
        inside = ((pair < total) & (y >= 0) & (y < H))[:, None] & (column >= 0) & (column < W)
        at = (image * H + y)[:, None] * (W * C) + (x - 1)[:, None] * C + k[None, :]
        a = tl.load(source + at, mask=inside, other=0.0)
        b = tl.load(g + pair[:, None] * (2 * C) + n[None, :], mask=(pair < total)[:, None], other=0.0)
        acc = tl.dot(tl.trans(a), b, acc)
    there = sums + ((part * 3 + tap) * (4 * C) + k)[:, None] * (2 * C) + n[None, :]
    tl.store(there, acc)


@triton.jit
def gather_taps_kernel(sums, out, parts, C: tl.constexpr, P: tl.constexpr):
    """out [C, C, 3, 3] from sums [parts, 3, 4 C, 2 C]: each tap occurs once for each pixel of a pair."""
    tap = tl.program_id(0) // C
    i = tl.program_id(0) % C
    o = tl.arange(0, C)
    total = tl.zeros((P, C), tl.float32)
    for first in range(0, parts, P):
        part = first + tl.arange(0, P)
        for q in tl.static_range(2):
            line = (part * 3 + tap // 3) * (4 * C) + (tap % 3 + q) * C + i
            at = sums + line[:, None] * (2 * C) + (q * C + o)[None, :]
            total += tl.load(at, mask=(part < parts)[:, None], other=0.0)
    tl.store(out + (o * C + i) * 9 + tap, tl.sum(total, axis=0))


def convolve(
    x: Tensor, weight: Tensor, tile: NarrowTile, *, turned: bool = False, sums: bool = False
) -> tuple[Tensor, Tensor | None]:
    """conv(x) [b, h, w, c] with weight [c, c, 3, 3] or the rotated weight; with sums also the sums of the result."""
    images, height, width, channels = x.shape
    across = tile.tall * tile.wide * channels
    matrix = x.new_empty(((tile.tall + 2) * (tile.wide + 2) * channels, across))
    band_kernel[(triton.cdiv(matrix.numel(), 1024),)](
        weight, matrix, matrix.numel(), C=channels, TALL=tile.tall, WIDE=tile.wide, TURN=turned, BLOCK=1024
    )
    out = torch.empty_like(x)
    total = images * height * width // (tile.tall * tile.wide)
    programs = triton.cdiv(total, tile.rows)
    found = x.new_empty((programs, 2, channels), dtype=torch.float32) if sums else None
    narrow_kernel[(programs,)](
        x, matrix, matrix if found is None else found, out, total,
        C=channels, H=height, W=width, SUMS=sums, TALL=tile.tall, WIDE=tile.wide, M=tile.rows, STAGES=tile.stages,
        num_warps=tile.warps,
    )  # fmt: skip
    return out, found


def filter_gradient(x: Tensor, g: Tensor, tile: NarrowTile) -> Tensor:
    """The gradient of the filter [c, c, 3, 3] in float32 from the input and the gradient of the output."""
    images, height, width, channels = x.shape
    total = images * height * width // 2
    rows = max(16, tile.gradient_rows * 2 // x.element_size())  # tiles are tuned for bf16; float32 takes twice the room
    parts = min(tile.gradient_parts, triton.cdiv(total, rows))
    sums = x.new_empty((parts, 3, 4 * channels, 2 * channels), dtype=torch.float32)
    filter_gradient_kernel[(3 * parts,)](
        x, g, sums, total, C=channels, H=height, W=width, M=rows, STAGES=tile.gradient_stages,
        num_warps=tile.gradient_warps,
    )  # fmt: skip
    out = x.new_empty((channels, channels, 3, 3), dtype=torch.float32)
    gather_taps_kernel[(9 * channels,)](sums, out, parts, C=channels, P=64)
    return out
