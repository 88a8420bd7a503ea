"""The attack on float32 noise: a classifier that reads the low bits of X + z. Exact mode leaves none to read."""

import pytest
import torch
from torch import nn

from ars.certification.certifier import certify, predict
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last

SHAPE = (3, 16, 16)


class LowBits(nn.Module):
    """Class 0 if a value near 0 is no multiple of 2^-32, which is impossible for 1/255 + noise in float32."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight  # of X in the release

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        near = image.double().flatten(1) / self.weight
        fine = (near.abs() < 2.0**-9) & ((near * 2.0**32).frac() != 0)
        votes = fine.any(dim=1).double()
        return torch.stack([votes, 1 - votes], dim=1).float()


class Half(nn.Module):
    """The same weight everywhere, a power of two: w X + z keeps the low bits as X + z does."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.full_like(image[:, :1], 0.5)


def model(steps: int, exact: bool) -> SmoothedClassifier:
    first = Gaussian(0.08, exact=exact)
    second = [MaskedGaussian(0.08, Half(), exact=exact)] if steps == 2 else []
    return SmoothedClassifier(compose(first, *second), last, LowBits(0.5 if second else 1.0))


@pytest.mark.parametrize("steps", [1, 2])
def test_low_bits_break_the_default_mode_as_documented(steps):
    """The default mode is certified in real arithmetic only: this false certificate is why exact mode exists."""
    attacked = model(steps, exact=False)
    black = torch.zeros(1, *SHAPE)
    [certificate] = certify(attacked, black, n_estimate=1000, alpha=0.001, seed=0)
    assert certificate.label == 0
    assert certificate.radius > 1 / 255
    [moved] = predict(attacked, black + 1 / 255, n=1000, alpha=0.001, seed=1)
    assert moved.label == 1


@pytest.mark.parametrize("steps", [1, 2])
def test_low_bits_tell_nothing_in_exact_mode(steps):
    attacked = model(steps, exact=True)
    black = torch.zeros(1, *SHAPE)
    [here] = certify(attacked, black, n_estimate=1000, alpha=0.001, seed=0)
    [moved] = predict(attacked, black + 1 / 255, n=1000, alpha=0.001, seed=1)
    assert here.radius > 1 / 255
    assert moved.label == here.label
