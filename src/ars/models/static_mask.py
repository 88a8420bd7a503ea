"""The static mask baseline: one learned weight per pixel, the same for every image."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class StaticMask(nn.Module):
    """W in [0, 1]^(h x w), learned from an initial value of 1; it depends only on the shape of the image.

    A plain clamp gives no gradient to a weight that an optimiser step moved past 0 or 1, so the weight would stay there
    forever. Here the gradient passes exactly when a descent step would bring the weight back.
    """

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        if height < 1 or width < 1:
            raise ValueError(f"a static mask needs a positive height and width, got {height}x{width}")
        self.weight = nn.Parameter(torch.ones(height, width))

    def forward(self, released: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 1 h w"]:
        """The weights, repeated for each image without a copy."""
        if released.shape[-2:] != self.weight.shape:
            expected, got = ("x".join(map(str, shape)) for shape in (self.weight.shape, released.shape[-2:]))
            raise ValueError(f"this static mask was made for {expected} images, got {got}; make one of that size")
        weight: Tensor = ReturningClamp.apply(self.weight)  # type: ignore[no-untyped-call]
        return weight.expand(released.shape[0], 1, -1, -1)


class ReturningClamp(torch.autograd.Function):
    """clamp(w, 0, 1) whose gradient is 0 only where descent would push w further out of [0, 1]."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        """Exactly in [0, 1], which w + (clamp(w) - w) need not be."""
        ctx.save_for_backward(weight)
        return weight.clamp(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """Drop the gradients at w > 1 that ask for more, and those at w < 0 that ask for less."""
        (weight,) = ctx.saved_tensors
        (grad,) = grads
        outwards = ((weight > 1) & (grad < 0)) | ((weight < 0) & (grad > 0))
        return grad.masked_fill(outwards, 0)
