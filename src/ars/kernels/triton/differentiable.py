"""The training kernels as autograd functions; all maps are contiguous NHWC."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.triton.conv16 import NarrowTile, convolve, filter_gradient
from ars.kernels.triton.norm import activate, activate_backward, statistics, sums_of
from ars.kernels.triton.upsample import join, split

Map = Float[Tensor, "b h w c"]
# the fastest on an H200 at 64x64 and 32x32; with more channels cuDNN is faster
TILES = {16: NarrowTile(2, 2, 128, 4, 3, 64, 4, 264, 3), 32: NarrowTile(1, 1, 128, 4, 3, 128, 8, 132, 3)}


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> tuple[Tensor, Tensor | None]:
        tile = _tile(x, weight, stride, padding)
        # the kernels need a contiguous [o, i, 3, 3]; networks in channels last store filters in another order
        cast = weight.to(x.dtype, memory_format=torch.contiguous_format if tile else torch.preserve_format)
        ctx.save_for_backward(x, cast)
        ctx.how = (tile, stride, padding)
        if tile:
            out, sums = convolve(x, cast, tile, sums=True)
        else:
            out, sums = nhwc(torch.conv2d(nchw(x), cast, None, stride, padding)), None
        if sums is not None:
            ctx.mark_non_differentiable(sums)
        return out, sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        tile, stride, padding = ctx.how
        g = gradients[0].contiguous()
        if tile:
            to_x = convolve(g, weight, tile, turned=True)[0] if ctx.needs_input_grad[0] else None
            return to_x, filter_gradient(x, g, tile), None, None
        to_x, to_weight, _ = torch.ops.aten.convolution_backward(
            nchw(g), nchw(x), weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1,
            [ctx.needs_input_grad[0], True, False],
        )  # fmt: skip
        return (None if to_x is None else nhwc(to_x)), to_weight.float(), None, None


class _Activation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, y: Tensor, gamma: Tensor, beta: Tensor, residual: Tensor | None, sums: Tensor | None,
        keep: Tensor | None, norm: nn.BatchNorm2d, slope: float, border: bool,
    ) -> Tensor:  # fmt: skip
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        coefficients = statistics(
            sums_of(y) if sums is None else sums, gamma, beta, norm.running_mean, norm.running_var,
            count=y.numel() // y.shape[-1], momentum=norm.momentum, eps=norm.eps,
        )  # fmt: skip
        out = activate(y, coefficients, slope=slope, residual=residual, keep=keep, border=border)
        ctx.save_for_backward(y, coefficients, None if residual is None else out, keep)
        ctx.how = {"slope": slope, "border": border}
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        y, coefficients, z, keep = ctx.saved_tensors
        to_y, to_residual, totals = activate_backward(gradients[0].contiguous(), y, z, keep, coefficients, **ctx.how)
        return to_y, totals[1], totals[0], to_residual, None, None, None, None, None


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, small: Tensor, skip: Tensor) -> Tensor:
        return join(small, skip)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        g = gradients[0].contiguous()
        return split(g), g[..., g.shape[-1] // 2 :]


def convolution_and_norm(
    x: Map, weight: Tensor, norm: nn.BatchNorm2d, *,
    slope: float, stride: int = 1, padding: int = 0,
    residual: Map | None = None, keep: Tensor | None = None, border: bool = False,
) -> Map:  # fmt: skip
    """keep * act(norm(conv(x)) + residual), with the statistics of the batch; act(a) = a, or slope a below 0.

    weight is the convolution's filter in torch's layout. If x has more channels than the filter, the extra ones are
    zeros. padding is the width of zeros around x. keep [b, c] is a factor per image and channel. With a border, the
    result is reflected one pixel beyond its edge.
    """
    if residual is not None and border:
        raise ValueError("a residual with a border has no kernel")
    if x.shape[-1] > weight.shape[1]:
        weight = F.pad(weight, (0, 0, 0, 0, 0, x.shape[-1] - weight.shape[1]))
    y, sums = _Convolution.apply(x, weight, stride, padding)
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    out: Map = _Activation.apply(y, norm.weight, norm.bias, residual, sums, keep, norm, slope, border)
    return out


def joined(small: Map, skip: Map) -> Map:
    """small [b, h / 2, w / 2, c] enlarged beside skip [b, h + 2, w + 2, c]; skip and result have a reflected border."""
    out: Map = _Join.apply(small, skip)
    return out


def nchw(x: Map) -> Tensor:
    """The same memory in the view of torch's convolutions, channels last."""
    return x.permute(0, 3, 1, 2)


def nhwc(x: Tensor) -> Map:
    """The same memory in the view of the kernels."""
    return x.permute(0, 2, 3, 1).contiguous()


def _tile(x: Tensor, weight: Tensor, stride: int, padding: int) -> NarrowTile | None:
    outputs, inputs, side, _ = weight.shape
    tile = TILES.get(inputs)
    if (outputs, side, stride, padding) != (inputs, 3, 1, 1) or tile is None or not tile.fits(*x.shape[1:3]):
        return None
    return tile
