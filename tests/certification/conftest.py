"""Models that are small enough to draw from many thousand times."""

import pytest
import torch
from torch import nn

from ars.certification.votes import VoteCounter
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance

from .user_parts import Calls


class Threshold(nn.Module):
    """Class 1 where the mean of the image is above a threshold; notes how many images each call had."""

    def __init__(self, threshold: float = 0.5, classes: int = 2) -> None:
        super().__init__()
        self.threshold, self.classes = threshold, classes
        self.calls = Calls()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        self.calls.append(len(image))
        score = image.mean(dim=(1, 2, 3)) - self.threshold
        return torch.stack([-score, score, *[score - 100] * (self.classes - 2)], dim=1)


class PixelMask(nn.Module):
    """A mask that depends on every pixel it sees."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return (2 * image.mean(dim=1, keepdim=True)).sigmoid()


@pytest.fixture
def cohen():
    """One Gaussian step before a threshold."""

    def make(sigma: float = 0.5, **options):
        return SmoothedClassifier(compose(Gaussian(sigma)), last, Threshold(**options))

    return make


@pytest.fixture
def ars():
    """Two steps, the second masked, before a threshold."""

    def make(sigma_1: float = 0.7, sigma_2: float = 0.7, classifier: nn.Module | None = None):
        mechanism = compose(Gaussian(sigma_1), MaskedGaussian(sigma_2, PixelMask()))
        return SmoothedClassifier(mechanism, minimum_variance, classifier or Threshold())

    return make


@pytest.fixture
def network():
    """Two convolutional networks with BatchNorm, whose votes are close."""
    torch.manual_seed(0)
    mask = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1), nn.Sigmoid())
    classifier = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 4)
    )
    return SmoothedClassifier(compose(Gaussian(0.7), MaskedGaussian(0.7, mask)), minimum_variance, classifier).eval()


@pytest.fixture
def images():
    return torch.rand(3, 3, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def count():
    """The votes of a model that is used as it is, without any check."""

    def votes(model, images, indices=None, *, n=550, stage="estimate", seed=3, precision="float32", **options):
        names = list(range(len(images))) if indices is None else list(indices)
        batch_size, mechanisms = options.pop("batch_size", None), [model.mechanism] * len(images)
        counter = VoteCounter(model, precision, batch_size=batch_size)
        return counter(mechanisms, images, names, n=n, stage=stage, seed=seed, **options)

    return votes
