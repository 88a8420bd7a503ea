"""A mask with random weights, the same in float32 (in the mechanism) and in float64 (in the audit)."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ars.certification.votes import VoteCounter


class RandomMask(nn.Module):
    """sigmoid(3x3 convolution + gain x mean), smooth, with a norm that differs widely from image to image.

    With a floor no weight is so small that exact mode hides its coordinate.
    """

    GAIN = 40.0

    def __init__(self, seed: int, outputs: int = 1, floor: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.kernel = torch.randn(outputs, 3, 3, 3, generator=generator)
        self.floor = floor
        self.bias = -torch.rand(outputs, generator=generator)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        local = F.conv2d(image, self.kernel.to(image.dtype), self.bias.to(image.dtype), padding=1)
        weight = (local + self.GAIN * (image.mean(dim=(1, 2, 3), keepdim=True) - 0.5)).sigmoid()
        return self.floor + (1 - self.floor) * weight


@pytest.fixture
def random_mask():
    return RandomMask


@pytest.fixture
def count_votes():
    """The votes [images, classes] of n draws of each image of a smoothed classifier, made so many at a time."""

    def count(model, images, *, n, seed, batch_size, mechanisms=None):
        counter = VoteCounter(model.eval(), "float32", batch_size=batch_size)
        assert counter.batch(images) == batch_size
        mechanisms = mechanisms or model.localise(images)
        return counter(mechanisms, images, range(len(images)), n=n, stage="estimate", seed=seed)

    return count
