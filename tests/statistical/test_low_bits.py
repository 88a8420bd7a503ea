"""The attack on float32 noise: a classifier that reads the low bits of X + z. Exact mode leaves none to read."""

import pytest
import torch
from torch import nn

from ars.certification.certifier import certify, predict
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last

SHAPE = (3, 16, 16)


MOVED = torch.tensor(1 / 255).double()


class LowBits(nn.Module):
    """Class 0 if a value from -2^-7 to 2^-9 is no sum of 1/255 and a float32 number, as 1/255 + noise is there."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight  # of X in the release

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        value = image.double().flatten(1) / self.weight
        noise = value - MOVED
        telling = (value > -(2.0**-7)) & (value < 2.0**-9) & (noise.float() != noise)
        votes = telling.any(dim=1).double()
        return torch.stack([votes, 1 - votes], dim=1).float()


class Half(nn.Module):
    """The same weight everywhere, a power of two: w X + z keeps the low bits as X + z does."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.full_like(image[:, :1], 0.5)


def model(steps: int, exact: bool, sigma: float = 0.08) -> SmoothedClassifier:
    first = Gaussian(sigma, exact=exact)
    second = [MaskedGaussian(sigma, Half(), exact=exact)] if steps == 2 else []
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


@pytest.mark.slow
def test_low_bits_break_every_vote_at_the_size_of_small_photographs():
    """The claim is 7.36/255, from 10,000 votes that all agree; at 1/255 they all agree on the other class."""
    black = torch.zeros(1, 3, 32, 32)
    attacked = model(1, exact=False, sigma=0.5)
    [certificate] = certify(attacked, black, n_estimate=10_000, alpha=0.001, seed=0)
    assert certificate.counts == (10_000, 0)
    assert certificate.radius == pytest.approx(7.36 / 255, abs=0.005 / 255)
    [moved] = predict(attacked, black + 1 / 255, n=10_000, alpha=0.001, seed=1)
    assert moved.counts == (0, 10_000)
    exact = model(1, exact=True, sigma=0.5)
    [here] = certify(exact, black, n_estimate=10_000, alpha=0.001, seed=0)
    [there] = predict(exact, black + 1 / 255, n=10_000, alpha=0.001, seed=1)
    assert here.label == there.label
    assert here.radius > 1 / 255
