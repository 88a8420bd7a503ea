"""Draws are independent: the votes of blocks scatter as binomials do, no more and no less."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import nn

from ars.certification.settings import BLOCK
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, minimum_variance

BLOCKS = 500
RARE = 1e-8
"""The p-value at which draws are said to be dependent; the controls are beyond it by many standard deviations."""


class Votes(nn.Module):
    """A fair-to-uneven threshold on one sum of pixels; keeps the labels in the order of the draws."""

    def __init__(self, coin=lambda batch: torch.zeros(batch)):
        super().__init__()
        self.coin = coin
        self.labels = []

    def forward(self, image):
        score = image.mean(dim=(1, 2, 3)) - 0.55 + self.coin(len(image))
        self.labels.append(score > 0)
        return torch.stack([-score, score], dim=1)


def dispersion(votes, size):
    """p-values, to either side, of the chi-squared test that every count is Bin(size, the common p)."""
    p = votes.mean() / size
    statistic = ((votes - size * p) ** 2).sum() / (size * p * (1 - p))
    return chi2.sf(statistic, len(votes) - 1), chi2.cdf(statistic, len(votes) - 1)


@pytest.fixture
def labels_of(random_mask, count_votes):
    """The label of every draw, in the order of the draws."""

    def run(classifier, seed, *, images, draws, batch_size, apart=False):
        x = torch.full((3, 3, 3), 0.5).expand(images, -1, -1, -1)
        mechanisms = [compose(Gaussian(0.7), MaskedGaussian(0.7, random_mask(1))) for _ in range(images)]
        model = SmoothedClassifier(mechanisms[0], minimum_variance, classifier)
        own = mechanisms if apart else None
        votes = count_votes(model, x, n=draws, seed=seed, batch_size=batch_size, mechanisms=own)
        labels = torch.cat(classifier.labels).numpy()
        assert len(labels) == images * draws
        assert labels.sum() == votes[:, 1].sum()
        assert 0.2 < labels.mean() < 0.8
        return labels

    return run


# one image with all blocks, one block of each image, and device batches of one block or ten; each image with a
# mechanism of its own, as input-dependent noise has
LAYOUTS = [
    (1, BLOCKS, BLOCK, False),
    (BLOCKS, 1, BLOCK, False),
    (1, BLOCKS, 10 * BLOCK, False),
    (5, BLOCKS // 5, 10 * BLOCK, False),
    (BLOCKS, 1, 10 * BLOCK, True),
]


@pytest.mark.false_alarm(6 * RARE)
@pytest.mark.parametrize(("images", "blocks", "batch_size", "apart"), LAYOUTS)
def test_votes_scatter_as_binomials_over_blocks_and_over_device_batches(
    labels_of, seed, images, blocks, batch_size, apart
):
    labels = labels_of(Votes(), seed, images=images, draws=blocks * BLOCK, batch_size=batch_size, apart=apart)
    for size in (BLOCK, 10 * BLOCK, 10):
        assert min(dispersion(labels.reshape(-1, size).sum(axis=1), size)) > RARE, size


@pytest.mark.false_alarm(2 * RARE)
def test_the_same_place_in_different_blocks_is_as_independent(labels_of, seed):
    """Blocks whose generators were alike would agree place by place."""
    labels = labels_of(Votes(), seed, images=1, draws=BLOCKS * BLOCK, batch_size=BLOCK)
    assert min(dispersion(labels.reshape(BLOCKS, BLOCK).sum(axis=0), BLOCKS)) > RARE


@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("batch_size", [BLOCK, 10 * BLOCK])
def test_a_coin_shared_by_the_batch_is_found(labels_of, seed, batch_size):
    """The gap of a shared random flip: the same shift for every draw of a forward pass."""
    generator = np.random.default_rng(seed)
    shared = Votes(coin=lambda batch: torch.full((batch,), 0.03 * generator.choice([-1.0, 1.0])))
    labels = labels_of(shared, seed, images=1, draws=BLOCKS * BLOCK, batch_size=batch_size)
    above, _ = dispersion(labels.reshape(-1, BLOCK).sum(axis=1), BLOCK)
    assert above < RARE


@pytest.mark.false_alarm(2 * RARE)
def test_a_coin_for_every_draw_is_not_mistaken_for_a_shared_one(labels_of, seed):
    generator = np.random.default_rng(seed)
    own = Votes(coin=lambda batch: torch.from_numpy(0.03 * generator.choice([-1.0, 1.0], batch)).float())
    labels = labels_of(own, seed, images=1, draws=BLOCKS * BLOCK, batch_size=BLOCK)
    assert min(dispersion(labels.reshape(-1, BLOCK).sum(axis=1), BLOCK)) > RARE
