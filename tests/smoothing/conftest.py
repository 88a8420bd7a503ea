"""Small networks and spies for the mechanisms."""

import pytest
import torch
from torch import nn

from ars.smoothing import Release, Step
from ars.theory import Gaussian as GaussianTradeOff


class SmoothMask(nn.Module):
    """A data-dependent mask, one weight per pixel: the sigmoid of a 3x3 convolution of what it sees."""

    def __init__(self, channels: int = 3, outputs: int = 1, seed: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, outputs, 3, padding=1)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator)
        self.seen: list[torch.Tensor] = []

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        self.seen.append(image)
        return self.conv(image).sigmoid()


class ConstantMask(nn.Module):
    """The same weight everywhere, whatever the image."""

    def __init__(self, value: float, channels: int = 1) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))
        self.channels = channels

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.value.expand(len(image), self.channels, *image.shape[2:])


class Given(nn.Module):
    """A mask that is given from outside."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, image):
        return self.weight


class Fixed(Step):
    """A step that lets out the same releases whatever X is: a first step whose noise happened to hide X."""

    def __init__(self, value: torch.Tensor, std: float = 0.5) -> None:
        super().__init__()
        self.value, self.std = value, std

    @property
    def sigma(self) -> float:
        return self.std

    def release(self, x, past, generator):
        one = torch.ones(1, 1, 1, 1)
        return Release(self.value, weight=one, std=self.std * one)

    def guarantee(self, ball):
        return GaussianTradeOff(0.0)


@pytest.fixture
def smooth_mask():
    return SmoothMask


@pytest.fixture
def constant_mask():
    return ConstantMask


@pytest.fixture
def fixed_step():
    return Fixed


@pytest.fixture
def images():
    return torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
