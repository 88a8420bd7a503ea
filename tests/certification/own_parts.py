"""Parts of models that somebody may have written: any function, noise drawn anyhow, a small network."""

import torch
from torch import nn

from ars.models import small_cnn
from ars.smoothing import Gaussian, Release


class Function(nn.Module):
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
        return Release(x + self.like(x, generator), weight=one, std=0.5 * one)


def plain():
    torch.manual_seed(0)
    return small_cnn(4, width=8)


class Wrapped(torch.Tensor):
    """Numbers with a scale, kept apart as weights of few bits are; without a scale, where no one can find them."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=torch.float32)

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self):
        if self.scale is None:
            raise NotImplementedError
        return ["numbers", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].numbers, args[0].scale)
        raise NotImplementedError(f"{function} of wrapped numbers")
