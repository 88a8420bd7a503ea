"""The certified radius is not only sound but exact: the best attackable classifier reaches 1/2 just there."""

import math

import pytest
import torch
from scipy.stats import norm
from torch import nn

from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose
from ars.theory import Ball

SHAPE = (3, 8, 8)
DIM = 192
N = 60_000


class Optimal(nn.Module):
    """Combination and classifier that together are the likelihood ratio test of X against X + e.

    The statistic sum_i e_i sum_j w_ji (m_j - w_j X)_i / s_j^2 is what the ratio grows with; label 0 is "X".
    """

    def __init__(self, mechanism, x, signs, p):
        super().__init__()
        self.x, self.signs = x, signs
        # its standard deviation under X, sqrt(sum_j d / sigma_j^2), is the privacy loss at radius 1
        self.scale = mechanism.guarantee(Ball("linf", DIM, 1.0)).mu
        self.threshold = norm.ppf(p)

    def combine(self, releases):
        return sum(r.weight / r.std**2 * (r.value - r.weight * self.x) for r in releases)

    def forward(self, statistic):
        score = (self.signs * statistic).sum(dim=(1, 2, 3)) / self.scale
        return torch.stack([self.threshold - score, score - self.threshold], dim=1)


@pytest.fixture
def attacked(random_mask):
    def make(p, *, steps=2):
        masked = [MaskedGaussian(0.6 + 0.1 * j, random_mask(j)) for j in range(steps - 1)]
        mechanism = compose(Gaussian(0.5), *masked)
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(SHAPE, generator=generator)
        signs = torch.randint(0, 2, SHAPE, generator=generator).float() * 2 - 1
        test = Optimal(mechanism, x, signs, p)
        return SmoothedClassifier(mechanism, test.combine, test), x, signs

    return make


@pytest.fixture
def share_of_label_0(count_votes):
    return lambda model, images: count_votes(model, images, n=N, seed=5, batch_size=6_000)[:, 0] / N


@pytest.mark.parametrize(("p", "steps"), [(0.8, 2), (0.95, 1), (0.9, 3)])
def test_the_optimal_test_is_at_one_half_at_exactly_the_radius(attacked, share_of_label_0, p, steps):
    model, x, signs = attacked(p, steps=steps)
    radius = model.radius(p, 1 - p, norm="linf", dim=DIM)
    images = torch.stack([x, x + radius * signs, x + 1.05 * radius * signs, x + 0.95 * radius * signs])
    clean, at, beyond, inside = share_of_label_0(model, images)
    se = 0.5 / math.sqrt(N)
    assert abs(clean - p) < 4 * se
    assert abs(at - 0.5) < 4 * se
    assert beyond < 0.5 - 2 * se
    assert inside > 0.5 + 2 * se
    assert beyond == pytest.approx(norm.cdf(-0.05 * norm.ppf(p)), abs=4 * se)


def test_a_perturbation_that_the_test_does_not_look_for_flips_nothing_at_the_radius(attacked, share_of_label_0):
    model, x, signs = attacked(0.8)
    radius = model.radius(0.8, 0.2, norm="linf", dim=DIM)
    other = signs * (torch.rand(SHAPE, generator=torch.Generator().manual_seed(9)) < 0.5)
    (share,) = share_of_label_0(model, (x + radius * other)[None])
    assert share > 0.55
