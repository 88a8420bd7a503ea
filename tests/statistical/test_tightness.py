"""The certified radius is not only sound but exact: the best attackable classifier reaches 1/2 just there.

In exact mode the radius is below that of the same noise in real arithmetic by two units, so it does just beyond.
"""

import math

import pytest
import torch
from scipy.stats import binom, norm
from torch import nn

from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose
from ars.theory import Ball
from ars.theory.exact import MASKED_UNITS as UNITS
from ars.theory.tradeoff import Approximate

SHAPE = (3, 8, 8)
DIM = 192
N = 60_000
RARE = 1e-8


def real_noise(mechanism):
    """The Linf radius, in real arithmetic, per unit of Phi^-1(p)."""
    guarantee = mechanism.guarantee(Ball("linf", DIM, 1e6))
    return 1e6 / (guarantee.ideal if isinstance(guarantee, Approximate) else guarantee).mu


def agrees(share, p):
    """Whether a share of N draws could be of an event of probability p; if it is, it does with all but 2 RARE."""
    return binom.ppf(RARE, N, p) <= round(N * share) <= binom.isf(RARE, N, p)


class Optimal(nn.Module):
    """Combination and classifier that together are the likelihood ratio test of X against X + e.

    The statistic sum_i e_i sum_j w_ji (m_j - w_j X)_i / s_j^2 is what the ratio grows with; label 0 is "X".
    """

    def __init__(self, mechanism, x, signs, p):
        super().__init__()
        self.x, self.signs = x, signs
        # its standard deviation under X, sqrt(sum_j d / sigma_j^2), is the privacy loss at radius 1
        self.scale = 1 / real_noise(mechanism)
        self.threshold = norm.ppf(p)

    def combine(self, releases):
        return sum(r.weight / r.std**2 * (r.value - r.weight * self.x) for r in releases)

    def forward(self, statistic):
        score = (self.signs * statistic).sum(dim=(1, 2, 3)) / self.scale
        return torch.stack([self.threshold - score, score - self.threshold], dim=1)


@pytest.fixture
def attacked(random_mask):
    def make(p, *, steps=2, exact=False):
        masked = [MaskedGaussian(0.6 + 0.1 * j, random_mask(j, floor=0.2), exact=exact) for j in range(steps - 1)]
        mechanism = compose(Gaussian(0.5, exact=exact), *masked)
        generator = torch.Generator().manual_seed(0)
        x = torch.randint(0, 256, SHAPE, generator=generator) / 255
        signs = torch.randint(0, 2, SHAPE, generator=generator).float() * 2 - 1
        test = Optimal(mechanism, x, signs, p)
        return SmoothedClassifier(mechanism, test.combine, test), x, signs

    return make


@pytest.fixture
def share_of_label_0(count_votes, seed):
    return lambda model, images: count_votes(model, images, n=N, seed=seed, batch_size=6_000)[:, 0] / N


@pytest.mark.false_alarm(8 * RARE)
@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize(
    ("p", "steps"),
    [(0.8, 2), (0.95, 1), pytest.param(0.9, 3, marks=pytest.mark.slow), pytest.param(0.85, 4, marks=pytest.mark.slow)],
)
def test_the_optimal_test_is_at_one_half_at_exactly_the_radius(attacked, share_of_label_0, p, steps, exact):
    model, x, signs = attacked(p, steps=steps, exact=exact)
    radius, ideal = model.radius(p, 1 - p, norm="linf", dim=DIM), real_noise(model.mechanism) * norm.ppf(p)
    assert ideal * (1 - 1e-3) - (2 / UNITS if exact else 0) < radius < ideal
    # in exact mode images move by whole units
    moved = [math.floor(times * radius * UNITS) / UNITS if exact else times * radius for times in (0, 0.95, 1, 1.05)]
    shares = share_of_label_0(model, torch.stack([x + distance * signs for distance in moved]))
    for share, distance in zip(shares, moved, strict=True):
        assert agrees(share, norm.cdf(norm.ppf(p) * (1 - distance / ideal)))
    assert shares[1] > 0.5 > shares[3]


@pytest.mark.false_alarm(RARE)
def test_a_perturbation_that_the_test_does_not_look_for_flips_nothing_at_the_radius(attacked, share_of_label_0):
    model, x, signs = attacked(0.8)
    radius = model.radius(0.8, 0.2, norm="linf", dim=DIM)
    other = signs * (torch.rand(SHAPE, generator=torch.Generator().manual_seed(9)) < 0.5)
    (share,) = share_of_label_0(model, (x + radius * other)[None])
    assert share > 0.55
