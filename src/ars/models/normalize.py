"""Normalisation as a layer of the classifier, so that noise and radii stay in pixel units."""

from collections.abc import Sequence
from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Normalize(nn.Module):
    """(x - mean) / std, channel by channel: after the noise, before the network.

    >>> import torch
    >>> layer = Normalize(mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25])
    >>> layer(torch.ones(1, 3, 1, 1)).flatten().tolist()
    [2.0, 2.0, 2.0]
    """

    mean: Float[Tensor, "1 c 1 1"]
    std: Float[Tensor, "1 c 1 1"]

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not len(mean):
            raise ValueError(f"need one mean and one std per channel, got {len(mean)} means and {len(std)} stds")
        if not all(isfinite(m) for m in mean) or not all(isfinite(s) and s > 0 for s in std):
            raise ValueError(f"need finite means and finite stds > 0, got mean={list(mean)}, std={list(std)}")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(1, -1, 1, 1))

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """Images in the scale that the network was trained on."""
        if x.ndim != 4 or x.shape[1] != self.mean.shape[1]:
            raise ValueError(f"expected images [b, {self.mean.shape[1]}, h, w] for these means, got {list(x.shape)}")
        return (x - self.mean) / self.std
