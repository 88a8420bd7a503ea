"""A convolution that pads, upsamples and concatenates by index arithmetic, so that no intermediate map is stored.

A program computes a tile of ``rows`` output patches, each tall x wide pixels, as one matrix product whose left operand
is gathered from channels-last maps. Reflected borders are reflected indices; nearest upsampling is a right shift of
indices; a concatenation is two products into one accumulator. Bias, activation, residual and a 1x1 sigmoid head are
applied in registers.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ars.kernels.layout import ConvTile


@triton.jit
def _mirror(i, SIZE: tl.constexpr):
    """Reflect an index that is at most one period outside 0, ..., SIZE - 1."""
    i = tl.where(i < 0, -i, i)
    return tl.where(i >= SIZE, 2 * SIZE - 2 - i, i)


@triton.jit
def _product(
    acc, source, weight, image, top, left, n,
    C: tl.constexpr, PITCH: tl.constexpr, H: tl.constexpr, W: tl.constexpr, UP: tl.constexpr, N: tl.constexpr,
    KERNEL: tl.constexpr, TALL: tl.constexpr, WIDE: tl.constexpr, DEPTH: tl.constexpr, ZERO: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """acc + patches(source) @ weight; H x W is the size after upsampling by UP, PITCH the channels per pixel."""
    ACROSS: tl.constexpr = KERNEL if WIDE == 1 else 1
    COLUMNS: tl.constexpr = 1 if WIDE == 1 else WIDE + KERNEL - 1  # adjacent pixels in one load
    K: tl.constexpr = COLUMNS * DEPTH
    CHUNKS: tl.constexpr = C // DEPTH
    k = tl.arange(0, K)
    for step in tl.range((TALL + KERNEL - 1) * ACROSS * CHUNKS, num_stages=STAGES):
        tap = step // CHUNKS
        y = top + tap // ACROSS
        x = left[:, None] + (tap % ACROSS + k // DEPTH)[None, :]
        line = (image * (H // UP) + _mirror(y, H) // UP) * (W // UP)
        pixel = line[:, None] + _mirror(x, W) // UP
        at = pixel * PITCH + (step % CHUNKS * DEPTH + k % DEPTH)[None, :]
        if ZERO:
            inside = ((y >= 0) & (y < H))[:, None] & (x >= 0) & (x < W)
            a = tl.load(source + at, mask=inside, other=0.0)
        else:
            a = tl.load(source + at)
        b = tl.load(weight + (step * K + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc)
    return acc


@triton.jit
def conv_kernel(
    first, second, weight, weight2, bias, slope, residual, head, out, total,
    CA: tl.constexpr, PA: tl.constexpr, CB: tl.constexpr, UP: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    COUT: tl.constexpr, KERNEL: tl.constexpr, STRIDE: tl.constexpr, ZERO: tl.constexpr,
    RESIDUAL: tl.constexpr, HEAD: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, M: tl.constexpr, BN: tl.constexpr,
    DA: tl.constexpr, DB: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """out = act(conv([upsampled first, second]) + bias + residual) on NHWC maps, act(a) = a or slope a below 0."""
    HO: tl.constexpr = H // STRIDE
    WO: tl.constexpr = W // STRIDE
    N: tl.constexpr = TALL * WIDE * COUT
    PAD: tl.constexpr = KERNEL // 2
    row = tl.program_id(0) * M + tl.arange(0, M)
    inside = row < total
    row = tl.where(inside, row, 0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    down, across = row // (WO // WIDE), row % (WO // WIDE)
    image, y = down // (HO // TALL), down % (HO // TALL) * TALL
    x = across * WIDE
    top, left = y * STRIDE - PAD, x * STRIDE - PAD
    acc = tl.zeros((M, BN), tl.float32)
    acc = _product(acc, first, weight, image, top, left, n, CA, PA, H, W, UP, N, KERNEL, TALL, WIDE, DA, ZERO, STAGES)
    if CB > 0:
        acc = _product(
            acc, second, weight2, image, top, left, n, CB, CB, H, W, 1, N, KERNEL, TALL, WIDE, DB, ZERO, STAGES
        )
    channel = n % COUT
    acc += tl.load(bias + channel)[None, :]
    pixel = (image * HO + y) * WO + x
    if RESIDUAL > 0:  # a map with RESIDUAL channels per pixel, of which the last COUT are added
        spread = n // (WIDE * COUT) * (WO * RESIDUAL) + n % (WIDE * COUT) // COUT * RESIDUAL
        there = pixel[:, None] * RESIDUAL + (spread + RESIDUAL - COUT + channel)[None, :]
        acc += tl.load(residual + there, mask=inside[:, None], other=0.0).to(tl.float32)
    acc = tl.where(acc > 0, acc, acc * tl.load(slope + channel)[None, :])
    if HEAD:
        weighted = tl.reshape(acc * tl.load(head + channel)[None, :], (M, TALL * WIDE, COUT))
        logit = tl.sum(weighted, axis=2) + tl.load(head + COUT)
        p = tl.arange(0, TALL * WIDE)
        tl.store(
            out + pixel[:, None] + (p // WIDE * WO + p % WIDE)[None, :], 1 / (1 + tl.exp(-logit)), mask=inside[:, None]
        )
    else:
        spread = n // (WIDE * COUT) * (WO * COUT) + n % (WIDE * COUT)
        there = out + pixel[:, None] * COUT + spread[None, :]
        tl.store(there, acc.to(out.dtype.element_ty), mask=inside[:, None])


@dataclass(frozen=True)
class Filter:
    """A convolution's weights in the kernel's layout; see ``layout`` for shapes."""

    first: Tensor
    second: Tensor | None
    bias: Tensor
    slope: Tensor
    head: Tensor | None = None


def run_conv(
    first: Tensor,
    weights: Filter,
    tile: ConvTile,
    *,
    channels: int,
    second: Tensor | None,
    residual: Tensor | None,
    up: int,
    stride: int,
    kernel: int,
    zero_padded: bool,
) -> Tensor:
    """One convolution of contiguous NHWC maps: first [b, h / up, w / up, c], second and result [b, h, w, c'].

    Only the first ``channels`` of first are read, and of residual the last ones, as many as outputs. With a head the
    result is float32 [b, h, w].
    """
    images, height, width, pitch = first.shape
    height, width, outputs = height * up, width * up, len(weights.bias)
    shape = (images, height // stride, width // stride)
    if weights.head is None:
        out = torch.empty((*shape, outputs), dtype=first.dtype, device=first.device)
    else:
        out = torch.empty(shape, dtype=torch.float32, device=first.device)
    if max(first.numel(), out.numel()) >= 2**31:
        raise ValueError(f"the kernel counts in 32 bits; {images} images are too many, use a smaller batch")
    columns = tile.tall * tile.wide * outputs
    total = out.numel() // (1 if weights.head is not None else outputs) // (tile.tall * tile.wide)
    block = min(columns, tile.columns)
    extra = second.shape[-1] if second is not None else 0
    conv_kernel[(triton.cdiv(total, tile.rows), columns // block)](
        first, first if second is None else second, weights.first,
        weights.first if weights.second is None else weights.second, weights.bias, weights.slope,
        first if residual is None else residual, weights.bias if weights.head is None else weights.head, out, total,
        CA=channels, PA=pitch, CB=extra, UP=up, H=height, W=width, COUT=outputs, KERNEL=kernel, STRIDE=stride,
        ZERO=zero_padded, RESIDUAL=0 if residual is None else residual.shape[-1], HEAD=weights.head is not None,
        TALL=tile.tall, WIDE=tile.wide, M=tile.rows, BN=block,
        DA=tile.depth_of(channels), DB=tile.depth_of(extra), STAGES=tile.stages,
        num_warps=tile.warps,
    )  # fmt: skip
    return out
