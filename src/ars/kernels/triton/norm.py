"""BatchNorm in training, with the residual, activation, dropout of channels and reflected border that follow it.

Forward: sums over y (unless the convolution computed them), statistics, one pass from y to the activated map. Backward:
sums over the gradient, one pass to the gradient of y. A map with a reflected border is one pixel larger on every side.
Loads that are masked off for almost all pixels add the gradients of its border to the reflected pixels. All maps are
contiguous NHWC, all statistics float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 2048  # elements of a map per program, for kernels without sums
TILE = 4096  # elements that a program sums in parallel
PARTS = 1024  # the maximum number of programs that sum; one more adds their sums
AT_ONCE = 512  # how many of those sums are added in parallel


@triton.jit
def _mirrored(at, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr):
    """The index in the H x W map of an element of the map with a reflected border."""
    pixel = at // C
    x = pixel % (W + 2) - 1
    y = pixel // (W + 2) % (H + 2) - 1
    image = pixel // ((W + 2) * (H + 2))
    x = tl.where(x < 0, 1, tl.where(x >= W, W - 2, x))
    y = tl.where(y < 0, 1, tl.where(y >= H, H - 2, y))
    return ((image * H + y) * W + x) * C + at % C


@triton.jit
def folded(g, at, inside, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, PITCH: tl.constexpr):
    """The gradient of elements of an H x W map from that of its bordered copy, whose pixels are PITCH apart."""
    pixel = at // C
    x = pixel % W
    y = pixel // W % H
    base = g + at % C
    line = pixel // (W * H) * (H + 2)
    row = (line + y + 1) * (W + 2)
    total = tl.load(base + (row + x + 1) * PITCH, mask=inside, other=0.0).to(tl.float32)
    # pixel 1 is also the border before 0, pixel W - 2 that after W - 1
    beside = tl.where(x == 1, 0, W + 1)
    across = inside & ((x == 1) | (x == W - 2))
    other = (line + tl.where(y == 1, 0, H + 1)) * (W + 2)
    along = inside & ((y == 1) | (y == H - 2))
    total += tl.load(base + (row + beside) * PITCH, mask=across, other=0.0).to(tl.float32)
    total += tl.load(base + (other + x + 1) * PITCH, mask=along, other=0.0).to(tl.float32)
    total += tl.load(base + (other + beside) * PITCH, mask=across & along, other=0.0).to(tl.float32)
    return total


@triton.jit
def sums_kernel(y, sums, total, C: tl.constexpr, ROWS: tl.constexpr):
    """sums [programs, 2, C]: of the elements and of their squares."""
    c = tl.arange(0, C)
    one = tl.zeros((ROWS, C), tl.float32)
    two = tl.zeros((ROWS, C), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(total, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        value = tl.load(y + row[:, None] * C + c[None, :], mask=(row < total)[:, None], other=0.0).to(tl.float32)
        one += value
        two += value * value
    there = sums + tl.program_id(0) * 2 * C + c
    tl.store(there, tl.sum(one, axis=0))
    tl.store(there + C, tl.sum(two, axis=0))


@triton.jit
def statistics_kernel(
    sums, gamma, beta, running_mean, running_var, coefficients, parts, count, momentum, eps,
    C: tl.constexpr, B: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """coefficients [4, C]: mean, 1 / std, scale, shift; the running statistics are updated as in torch."""
    c = tl.program_id(0) * B + tl.arange(0, B)
    one = tl.zeros((P, B), tl.float32)
    two = tl.zeros((P, B), tl.float32)
    for first in range(0, parts, P):
        part = first + tl.arange(0, P)
        at = sums + part[:, None] * (2 * C) + c[None, :]
        inside = (part < parts)[:, None]
        one += tl.load(at, mask=inside, other=0.0)
        two += tl.load(at + C, mask=inside, other=0.0)
    mean = tl.sum(one, axis=0) / count
    variance = tl.maximum(tl.sum(two, axis=0) / count - mean * mean, 0.0)
    scale = 1 / tl.sqrt(variance + eps)
    tl.store(coefficients + c, mean)
    tl.store(coefficients + C + c, scale)
    tl.store(coefficients + 2 * C + c, scale * tl.load(gamma + c))
    tl.store(coefficients + 3 * C + c, tl.load(beta + c) - mean * scale * tl.load(gamma + c))
    old = tl.load(running_mean + c)
    tl.store(running_mean + c, old + momentum * (mean - old))
    old = tl.load(running_var + c)
    tl.store(running_var + c, old + momentum * (variance * count / (count - 1) - old))


@triton.jit
def activate_kernel(
    y, coefficients, residual, keep, out, total, slope,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    RESIDUAL: tl.constexpr, DROP: tl.constexpr, BORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = keep * act(scale * y + shift + residual); BORDER adds a reflected border; keep is per channel."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    source = _mirrored(at, H, W, C) if BORDER else at
    c = at % C
    value = tl.load(y + source, mask=inside, other=0.0).to(tl.float32)
    value = value * tl.load(coefficients + 2 * C + c) + tl.load(coefficients + 3 * C + c)
    if RESIDUAL:
        value += tl.load(residual + source, mask=inside, other=0.0).to(tl.float32)
    value = tl.where(value > 0, value, value * slope)
    if DROP:
        value *= tl.load(keep + source // (H * W * C) * C + c, mask=inside, other=0.0)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _before_activation(
    g, y, z, keep, coefficients, at, inside, slope,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    RESIDUAL: tl.constexpr, DROP: tl.constexpr, BORDER: tl.constexpr,
):  # fmt: skip
    """The gradient before the activation, and the normalised y; with a residual, the sign is that of the output z."""
    c = at % C
    value = tl.load(y + at, mask=inside, other=0.0).to(tl.float32)
    if BORDER:
        gradient = folded(g, at, inside, H, W, C, C)
    else:
        gradient = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
    if RESIDUAL:
        sign = tl.load(z + at, mask=inside, other=0.0).to(tl.float32)
    else:
        sign = value * tl.load(coefficients + 2 * C + c) + tl.load(coefficients + 3 * C + c)
    gradient = tl.where(sign > 0, gradient, gradient * slope)
    if DROP:
        gradient *= tl.load(keep + at // (H * W * C) * C + c, mask=inside, other=0.0)
    return gradient, (value - tl.load(coefficients + c)) * tl.load(coefficients + C + c)


@triton.jit
def gradient_sums_kernel(
    g, y, z, keep, coefficients, sums, total, slope,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    RESIDUAL: tl.constexpr, DROP: tl.constexpr, BORDER: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """sums [programs, 2, C]: of the gradient before the activation, and of it times the normalised y."""
    c = tl.arange(0, C)
    one = tl.zeros((ROWS, C), tl.float32)
    two = tl.zeros((ROWS, C), tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(total, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        inside = (row < total)[:, None] & (c >= 0)[None, :]
        gradient, normal = _before_activation(
            g, y, z, keep, coefficients, row[:, None] * C + c[None, :], inside, slope,
            H, W, C, RESIDUAL, DROP, BORDER,
        )  # fmt: skip
        one += gradient
        two += gradient * normal
    there = sums + tl.program_id(0) * 2 * C + c
    tl.store(there, tl.sum(one, axis=0))
    tl.store(there + C, tl.sum(two, axis=0))


@triton.jit
def totals_kernel(sums, totals, parts, C: tl.constexpr, B: tl.constexpr, P: tl.constexpr):
    """totals [2, C] of sums [parts, 2, C]."""
    c = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((P, B), tl.float32)
    for first in range(0, parts, P):
        part = first + tl.arange(0, P)
        at = sums + part[:, None] * (2 * C) + c[None, :]
        total += tl.load(at, mask=(part < parts)[:, None], other=0.0)
    tl.store(totals + c, tl.sum(total, axis=0))


@triton.jit
def gradient_kernel(
    g, y, z, keep, coefficients, totals, out, passed, total, count, slope,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    RESIDUAL: tl.constexpr, DROP: tl.constexpr, BORDER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = the gradient of y; passed = that of the residual."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    c = at % C
    gradient, normal = _before_activation(
        g, y, z, keep, coefficients, at, inside, slope, H, W, C, RESIDUAL, DROP, BORDER
    )
    if RESIDUAL:
        tl.store(passed + at, gradient.to(passed.dtype.element_ty), mask=inside)
    mean, along = tl.load(totals + c) / count, tl.load(totals + C + c) / count
    value = tl.load(coefficients + 2 * C + c) * (gradient - mean - normal * along)
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


def sums_of(y: Tensor) -> Tensor:
    """Sums and sums of squares of a map [.., c] in parts [parts, 2, c], for statistics()."""
    channels = y.shape[-1]
    rows = TILE // channels
    total = y.numel() // channels
    sums = y.new_empty((min(PARTS, -(-total // rows)), 2, channels), dtype=torch.float32)
    sums_kernel[(len(sums),)](y, sums, total, C=channels, ROWS=rows, num_warps=8)
    return sums


def statistics(
    sums: Tensor, gamma: Tensor, beta: Tensor, running_mean: Tensor, running_var: Tensor, *,
    count: int, momentum: float, eps: float,
) -> Tensor:  # fmt: skip
    """Mean, 1 / std, scale and shift [4, c] of a map with these sums; the running statistics are updated."""
    parts, _, channels = sums.shape
    coefficients = sums.new_empty((4, channels))
    block = min(channels, 16)
    statistics_kernel[(channels // block,)](
        sums, gamma, beta, running_mean, running_var, coefficients, parts, count, momentum, eps,
        C=channels, B=block, P=AT_ONCE, num_warps=8,
    )  # fmt: skip
    return coefficients


def activate(
    y: Tensor, coefficients: Tensor, *, slope: float, residual: Tensor | None, keep: Tensor | None, border: bool
) -> Tensor:
    """From a convolution's output [b, h, w, c] to the input of the next one."""
    images, height, width, channels = y.shape
    out = y.new_empty((images, height + 2, width + 2, channels)) if border else torch.empty_like(y)
    total = out.numel()
    if not border and keep is None:
        height = width = 1  # positions are not needed, so one program serves every size
    activate_kernel[(triton.cdiv(total, ELEMENTS),)](
        y, coefficients, y if residual is None else residual, coefficients if keep is None else keep, out, total, slope,
        H=height, W=width, C=channels, RESIDUAL=residual is not None, DROP=keep is not None, BORDER=border,
        BLOCK=ELEMENTS, num_warps=8,
    )  # fmt: skip
    return out


def activate_backward(
    g: Tensor, y: Tensor, z: Tensor | None, keep: Tensor | None, coefficients: Tensor, *, slope: float, border: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The gradients of y, of the residual (if there is one, z is the output), and of shift and scale [2, c]."""
    _, height, width, channels = y.shape
    rows, count, total = TILE // channels, y.numel() // channels, y.numel()
    sums = y.new_empty((min(PARTS, -(-count // rows)), 2, channels), dtype=torch.float32)
    if not border and keep is None:
        height = width = 1
    sizes = {"H": height, "W": width, "C": channels, "RESIDUAL": z is not None, "DROP": keep is not None}
    seen = (g, y, y if z is None else z, coefficients if keep is None else keep, coefficients)
    gradient_sums_kernel[(len(sums),)](*seen, sums, count, slope, **sizes, BORDER=border, ROWS=rows, num_warps=8)
    totals = sums.new_empty((2, channels))
    block = min(2 * channels, 16)
    totals_kernel[(2 * channels // block,)](sums, totals, len(sums), C=channels, B=block, P=AT_ONCE, num_warps=8)
    out = torch.empty_like(y)
    passed = None if z is None else torch.empty_like(y)
    gradient_kernel[(triton.cdiv(total, ELEMENTS),)](
        *seen, totals, out, out if passed is None else passed, total, count, slope, **sizes, BORDER=border,
        BLOCK=ELEMENTS, num_warps=8,
    )  # fmt: skip
    return out, passed, totals
