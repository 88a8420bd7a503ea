"""Upsampling in the U-Net: a small map, enlarged, beside the map of the skip connection, with reflected borders."""

import triton
import triton.language as tl
from torch import Tensor

from ars.kernels.triton.norm import ELEMENTS, folded


@triton.jit
def join_kernel(
    small, skip, out, total, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out [b, H + 2, W + 2, 2 C]: small [b, H / 2, W / 2, C] enlarged with its border, then skip, which has one."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    c = at % (2 * C)
    pixel = at // (2 * C)
    x = pixel % (W + 2) - 1
    y = pixel // (W + 2) % (H + 2) - 1
    image = pixel // ((W + 2) * (H + 2))
    x = tl.where(x < 0, 1, tl.where(x >= W, W - 2, x)) // 2
    y = tl.where(y < 0, 1, tl.where(y >= H, H - 2, y)) // 2
    left = tl.load(small + ((image * (H // 2) + y) * (W // 2) + x) * C + c, mask=inside & (c < C), other=0.0)
    right = tl.load(skip + pixel * C + c - C, mask=inside & (c >= C), other=0.0)
    tl.store(out + at, tl.where(c < C, left, right), mask=inside)


@triton.jit
def split_kernel(
    g, out, total, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out [b, H / 2, W / 2, C]: the gradient of small."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    pixel = at // C
    x = pixel % (W // 2) * 2
    y = pixel // (W // 2) % (H // 2) * 2
    image = pixel // ((W // 2) * (H // 2))
    value = tl.zeros((BLOCK,), tl.float32)
    for q in tl.static_range(4):
        large = ((image * H + y + q // 2) * W + x + q % 2) * C + at % C
        value += folded(g, large, inside, H, W, C, 2 * C)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


def join(small: Tensor, skip: Tensor) -> Tensor:
    """[b, h / 2, w / 2, c] and [b, h + 2, w + 2, c] to [b, h + 2, w + 2, 2 c]."""
    images, height, width, channels = skip.shape
    out = skip.new_empty((images, height, width, 2 * channels))
    join_kernel[(triton.cdiv(out.numel(), ELEMENTS),)](
        small, skip, out, out.numel(), H=height - 2, W=width - 2, C=channels, BLOCK=ELEMENTS, num_warps=8
    )
    return out


def split(g: Tensor) -> Tensor:
    """The gradient of small from the gradient of join's result."""
    images, height, width, channels = g.shape
    out = g.new_empty((images, height // 2 - 1, width // 2 - 1, channels // 2))
    split_kernel[(triton.cdiv(out.numel(), ELEMENTS),)](
        g, out, out.numel(), H=height - 2, W=width - 2, C=channels // 2, BLOCK=ELEMENTS, num_warps=8
    )
    return out
