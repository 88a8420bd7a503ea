"""One kernel for a whole ResNet stage: a program takes its images through every block without leaving the cache.

The activations are in two zero-bordered NHWC maps per program, small enough for the L2 cache: the block's input x and
the intermediate t. conv1 reads x and writes t, conv2 reads t and updates x in place, so a stage of 36 convolutions
accesses device memory only for its input and its output.

A convolution is a matrix product over patches. With few channels such a product is too narrow for the tensor cores, so
a row of it computes a patch of ``tall`` x ``wide`` output pixels from the (tall + 2) x (wide + 2) pixels around it: the
weights become a banded matrix, a third of whose entries are 0, and each pixel is loaded 4 or 6 times instead of 9.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ars.kernels.layout import Tiling, programs


@triton.jit
def _conv(
    source, target, weight, bias,
    ADD: tl.constexpr, G: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """target = relu(conv3x3(source) + bias (+ target)) on zero-bordered maps [G, H + 2, W + 2, C]."""
    PITCH: tl.constexpr = (W + 2) * C
    AREA: tl.constexpr = (H + 2) * PITCH
    COLUMNS: tl.constexpr = 1 if WIDE == 1 else WIDE + 2  # adjacent pixels in one load
    K: tl.constexpr = COLUMNS * C
    N: tl.constexpr = TALL * WIDE * C
    ACROSS: tl.constexpr = (WIDE + 2) // COLUMNS
    TAPS: tl.constexpr = (TALL + 2) * ACROSS
    ROWS: tl.constexpr = H // TALL * (W // WIDE)
    TILES: tl.constexpr = (G * ROWS + M - 1) // M
    k = tl.arange(0, K)
    n = tl.arange(0, N)
    spread = n // (WIDE * C) * PITCH + n % (WIDE * C)  # where the columns of the product go in the map
    shift = tl.load(bias + n % C).to(tl.float32)
    for tile in tl.range(TILES, num_stages=1):
        row = tile * M + tl.arange(0, M)
        inside = row < G * ROWS
        row = tl.where(inside, row, 0)
        image, patch = row // ROWS, row % ROWS
        corner = image * AREA + patch // (W // WIDE) * (TALL * PITCH) + patch % (W // WIDE) * (WIDE * C)
        corner = tl.multiple_of(corner, 8)
        acc = tl.zeros((M, N), tl.float32)
        if STAGES == 1:
            for tap in tl.static_range(TAPS):
                offset = tap // ACROSS * PITCH + tap % ACROSS * C
                a = tl.load(source + offset + corner[:, None] + k[None, :])
                b = tl.load(weight + tap * K * N + k[:, None] * N + n[None, :])
                acc = tl.dot(a, b, acc)
        else:
            for tap in tl.range(TAPS, num_stages=STAGES):
                offset = tl.multiple_of(tap // ACROSS * PITCH + tap % ACROSS * C, 8)
                a = tl.load(source + offset + corner[:, None] + k[None, :])
                b = tl.load(weight + tap * K * N + k[:, None] * N + n[None, :])
                acc = tl.dot(a, b, acc)
        out = target + (PITCH + C) + corner[:, None] + spread[None, :]
        # images past the last one are computed from stale activations, and their results are not used
        keep = inside[:, None]
        acc += shift[None, :]
        if ADD:
            acc += tl.load(out, mask=keep, other=0.0).to(tl.float32)
        tl.store(out, tl.maximum(acc, 0.0).to(target.dtype.element_ty), mask=keep)


@triton.jit
def _move(
    plain, padded, images,
    INWARD: tl.constexpr, G: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Copy maps [G, H, W, C] into the interior of the zero-bordered ones, or back."""
    PITCH: tl.constexpr = (W + 2) * C
    c = tl.arange(0, C)
    for tile in tl.range((G * H * W + M - 1) // M, num_stages=1):
        row = tile * M + tl.arange(0, M)
        image, pixel = row // (H * W), row % (H * W)
        there = image * (H + 2) * PITCH + (pixel // W + 1) * PITCH + (pixel % W + 1) * C
        here = plain + row[:, None] * C + c[None, :]
        inner = padded + there[:, None] + c[None, :]
        keep = (image < images)[:, None] & (row < G * H * W)[:, None]
        if INWARD:
            tl.store(inner, tl.load(here, mask=keep, other=0.0), mask=keep)
        else:
            tl.store(here, tl.load(inner, mask=keep, other=0.0), mask=keep)


@triton.jit
def stage_kernel(
    x, out, weight, bias, scratch, images, blocks,
    G: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """out = blocks(x), x and out [images, H, W, C]; weight [2 blocks, taps, K, N], bias [2 blocks, C].

    scratch holds 2 G zero-bordered maps per program; its borders must be 0 and stay 0.
    """
    AREA: tl.constexpr = (H + 2) * (W + 2) * C
    LAYER: tl.constexpr = (TALL + 2) * (WIDE + 2) * C * TALL * WIDE * C
    program = tl.program_id(0).to(tl.int64)
    first = scratch + program * (2 * G * AREA)
    second = first + G * AREA
    for start in range(program * G, images, tl.num_programs(0) * G):
        here = start * (H * W * C)
        left = images - start
        _move(x + here, first, left, True, G, C, H, W, 128)
        tl.debug_barrier()
        for block in range(blocks):
            w, b = weight + 2 * block * LAYER, bias + 2 * block * C
            _conv(first, second, w, b, False, G, C, H, W, TALL, WIDE, M, STAGES)
            tl.debug_barrier()
            _conv(second, first, w + LAYER, b + C, True, G, C, H, W, TALL, WIDE, M, STAGES)
            tl.debug_barrier()
        _move(out + here, first, left, False, G, C, H, W, 128)
        tl.debug_barrier()


class Scratch:
    """The zero-bordered maps of a resident grid, allocated once."""

    def __init__(self, tiling: Tiling, like: Tensor) -> None:
        _, height, width, channels = like.shape
        self.programs = programs(tiling, like.device)
        shape = (self.programs, 2, tiling.group, height + 2, width + 2, channels)
        self.maps = torch.zeros(shape, dtype=like.dtype, device=like.device)


def run_stage(x: Tensor, weight: Tensor, bias: Tensor, scratch: Scratch, tiling: Tiling) -> Tensor:
    """The blocks of a stage on contiguous x [images, height, width, channels]; the result has the same layout.

    weight [2 blocks, taps, k, n] is from layout.banded, in the type of x; bias [2 blocks, channels] is in float32.
    """
    images, height, width, channels = x.shape
    out = torch.empty_like(x)
    grid = (min(scratch.programs, -(-images // tiling.group)),)
    stage_kernel[grid](
        x, out, weight, bias, scratch.maps, images, len(weight) // 2,
        G=tiling.group, C=channels, H=height, W=width,
        TALL=tiling.tall, WIDE=tiling.wide, M=tiling.rows, STAGES=tiling.stages,
        num_warps=tiling.warps, maxnreg=tiling.registers,
    )  # fmt: skip
    return out
