"""From releases to the input of a network in one pass: averaged, normalised, channels last, in the network's dtype."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from ars.smoothing.mechanism import Release

CHANNELS = 4  # channels of a pixel: those of the image, padded with zeros to a power of two
ROWS = 512  # pixels per program


@triton.jit
def pixels_kernel(
    first, second, weight1, weight2, std1, std2, mean, scale, out, total,
    AREA: tl.constexpr, C: tl.constexpr, P: tl.constexpr, TWO: tl.constexpr, SCALED: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """out [pixels, P] = (the minimum-variance combination of one or two releases [b, C, AREA] - mean) / scale."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.arange(0, P)
    image, place = row // AREA, row % AREA
    keep = (row < total)[:, None] & (c < C)[None, :]
    at = (image * (C * AREA) + place)[:, None] + (c * AREA)[None, :]
    value = tl.load(first + at, mask=keep, other=0.0).to(tl.float32)
    if TWO:  # as in minimum_variance; the first weight is one number
        w = tl.load(weight2 + row, mask=row < total, other=0.0)
        w1, s1 = tl.load(weight1), tl.load(std1)
        s2 = tl.load(std2 + image, mask=row < total, other=1.0)
        other = tl.load(second + at, mask=keep, other=0.0)
        precision = tl.maximum((w1 / s1) * (w1 / s1) + (w / s2) * (w / s2), 1e-12)
        value = (w1 / (s1 * s1) * value + (w / (s2 * s2))[:, None] * other) / precision[:, None]
    if SCALED:
        shift = tl.load(mean + c, mask=c < C, other=0.0)
        value = (value - shift[None, :]) / tl.load(scale + c, mask=c < C, other=1.0)[None, :]
    value = tl.where((c < C)[None, :], value, 0.0)
    there = out + row[:, None] * P + c[None, :]
    tl.store(there, value.to(out.dtype.element_ty), mask=(row < total)[:, None])


def run_pixels(
    releases: Sequence[Release], dtype: torch.dtype, mean: Tensor | None, std: Tensor | None
) -> Float[Tensor, "b h w 4"]:
    """One release, or one with a single weight and one with a weight per pixel, as pixels."""
    first, last = releases[0], releases[-1]
    images, channels, height, width = first.value.shape
    out = torch.empty((images, height, width, CHANNELS), dtype=dtype, device=first.value.device)
    if out.numel() >= 2**31:
        raise ValueError(f"the kernel counts in 32 bits; {images} images are too many, use a smaller batch")
    value, total = first.value.contiguous(), images * height * width
    pixels_kernel[(triton.cdiv(total, ROWS),)](
        value, last.value.contiguous(), first.weight, last.weight.contiguous(), first.std, last.std.contiguous(),
        value if mean is None else mean, value if std is None else std, out, total,
        AREA=height * width, C=channels, P=CHANNELS, TWO=len(releases) == 2, SCALED=mean is not None, M=ROWS,
    )  # fmt: skip
    return out
