"""Projected gradient ascent in the ball that will be certified, for SmoothAdv (Salman et al., 2019)."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ars.smoothing.mechanism import Images
from ars.theory import Norm


def attack(
    loss: Callable[[Images], Tensor],
    images: Images,
    *,
    epsilon: Tensor,
    steps: int,
    norm: Norm,
    start: Images | None = None,
    momentum: float = 0.0,
) -> Images:
    """Images within epsilon of the given ones, and in [0, 1], at which the loss, a sum over images, is high.

    It starts at the images, moved by start if that is given. epsilon is one number, or one per image [b, 1, 1, 1].
    Each step has length 2 epsilon / steps along the gradient (L2) or its sign (Linf), and is projected to [0, 1] and
    then to the ball. With momentum, a step follows a sum instead: the gradient at length 1, plus this share of the sum
    of the step before (Dong et al., 2018), so that noise in gradients averages out. No gradients of the weights are
    computed or changed. Nothing waits for the device, and epsilon may change between replays of a CUDA graph.
    """
    moved = torch.zeros_like(images)
    if start is not None:
        moved = into_ball((images + start).clamp(0, 1) - images, epsilon, norm)
    heading = torch.zeros_like(images) if momentum else None
    for _ in range(steps):
        with torch.enable_grad():
            moved.requires_grad_()
            (gradient,) = torch.autograd.grad(loss(images + moved), moved)
        with torch.no_grad():
            if heading is not None:
                gradient = heading.mul_(momentum).add_(gradient / length(gradient))
            ahead = images + moved + 2 * epsilon / steps * _direction(gradient, norm)
            moved = into_ball(ahead.clamp(0, 1) - images, epsilon, norm)
    return (images + moved).clamp(0, 1)


def _direction(gradient: Images, norm: Norm) -> Images:
    return gradient.sign() if norm == "linf" else gradient / length(gradient)


def into_ball(moved: Images, epsilon: Tensor, norm: Norm) -> Images:
    """The nearest perturbations within epsilon."""
    if norm == "linf":
        return moved.clamp(-epsilon, epsilon)
    return moved * (epsilon / length(moved)).clamp_max(1)


def length(images: Images) -> Float[Tensor, "b 1 1 1"]:
    """Each image's L2 norm, at least 1e-12 so that a gradient of zeros gives a step of zero."""
    norms: Tensor = torch.linalg.vector_norm(images, dim=(1, 2, 3), keepdim=True)
    return norms.clamp_min(1e-12)
