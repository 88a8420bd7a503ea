"""One draw taken apart, for figures."""

from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ars.smoothing import SmoothedClassifier


def take_apart(model: SmoothedClassifier, x: Float[Tensor, "b c h w"], *, seed: int) -> dict[str, NDArray[Any]]:
    """One draw an image: the input, what every step released, its mask, and the image that the classifier sees."""
    releases, average = model.stages(x, torch.Generator(x.device).manual_seed(seed))
    tensors = {"input": x, "average": average}
    for number, release in enumerate(releases, start=1):
        weight = release.weight.expand(len(x), -1, *x.shape[2:])
        tensors |= {f"value_{number}": release.value, f"weight_{number}": weight, f"masked_{number}": weight * x}
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
