"""Parts of models that users may write: any function, noise drawn anyhow, a small network."""

import torch
from torch import nn

from ars.models import small_cnn
from ars.smoothing import Gaussian, Release


class Calls(list):
    """What a network notes of its calls; copies of the network share it, so that a certifier's copy is seen."""

    def __deepcopy__(self, memo):
        return self


class Function(nn.Module):
    """A function as a network; what it closes over is shared by copies."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Noisy(Gaussian):
    """Noise drawn however its author thought of it."""

    def __init__(self, like):
        super().__init__(0.5)
        self.like = like

    def release(self, x, past, generator):
        one = torch.ones(1, 1, 1, 1)
        return Release(x + 0.5 * self.like(x, generator), weight=one, std=0.5 * one)


def plain():
    torch.manual_seed(0)
    return small_cnn(4, width=8)
