"""How often the bounds fail, on counts drawn from probabilities that are known."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from ars.certification.bounds import class_probabilities, lower_bound, upper_bound
from ars.certification.certifier import certify, predict
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last

REPEATS = 20_000
N = 300


def bounds_of(counts, alpha, bound):
    """(lower, upper) for each row of counts, class 0 being the predicted one; rows alike are computed once."""
    key = np.stack([counts[:, 0], counts[:, 1:].max(axis=1)], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    table = np.array([class_probabilities(counts[i].tolist(), 0, alpha, bound) for i in first])
    return table[inverse.reshape(-1)].T


def at_most(rate, alpha):
    """A rate over the repeats that an event of probability alpha could show."""
    return rate <= alpha + 4 * math.sqrt(alpha * (1 - alpha) / REPEATS)


def tight_probability(alpha, near):
    """The p just below a value of the lower bound, nearest to ``near``: there the bound fails most often."""
    values = np.array([lower_bound(k, N, alpha) for k in range(N + 1)])
    return float(values[np.abs(values - near).argmin()]) * (1 - 1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("near", [0.35, 0.5, 0.9])
@pytest.mark.parametrize("others", [(1.0,), (0.5, 0.5), (0.9, 0.05, 0.03, 0.02)])
def test_both_bounds_cover_all_classes_at_once(alpha, near, others):
    rng = np.random.default_rng(0)
    for bound, share in (("cohen", 1.0), ("classes", 0.9)):
        p = tight_probability(share * alpha, near)
        probabilities = np.array([p, *((1 - p) * np.array(others))])
        counts = rng.multinomial(N, probabilities / probabilities.sum(), size=REPEATS)
        lower, upper = bounds_of(counts, alpha, bound)
        missed_top = lower > p
        missed = missed_top | (upper < probabilities[1:].max())
        assert at_most(missed.mean(), alpha)
        # tight: at this p the lower bound alone uses its whole share
        assert missed_top.mean() > 0.8 * share * alpha


@pytest.mark.parametrize("classes", [3, 10])
def test_the_upper_bound_covers_the_largest_of_many_equal_classes(classes):
    """Class bounds at alpha close to 1, where the share of the others is large enough to be seen failing."""
    alpha = 0.5
    probabilities = np.array([0.4] + [0.6 / (classes - 1)] * (classes - 1))
    counts = np.random.default_rng(1).multinomial(N, probabilities, size=REPEATS)
    _, upper = bounds_of(counts, alpha, "classes")
    failed = (upper < probabilities[1]).mean()
    assert at_most(failed, 0.1 * alpha)


@pytest.mark.parametrize("alpha", [0.001, 0.05])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.77, 0.999])
def test_the_exact_failure_rate_of_either_bound_is_at_most_alpha(alpha, p):
    """No simulation: the probability of all counts at which the bound is wrong, summed."""
    k = np.arange(N + 1)
    weight = binom.pmf(k, N, p)
    lower = np.array([lower_bound(int(i), N, alpha) for i in k])
    upper = np.array([upper_bound(int(i), N, alpha) for i in k])
    assert weight[lower > p].sum() <= alpha
    assert weight[upper < p].sum() <= alpha


def test_testing_again_as_draws_come_in_is_caught_by_this_kind_of_test():
    """The control: Clopper-Pearson looked at after every 10 draws fails more than twice as often as it says."""
    alpha, p, looks = 0.05, 0.7, range(10, N + 1, 10)
    rng = np.random.default_rng(0)
    running = (rng.random((REPEATS, N)) < p).cumsum(axis=1)
    failed = np.zeros(REPEATS, dtype=bool)
    for n in looks:
        table = np.array([lower_bound(k, n, alpha) for k in range(n + 1)])
        failed |= table[running[:, n - 1]] > p
    assert failed.mean() > 2 * alpha
    assert not at_most(failed.mean(), alpha)


class Reads(nn.Module):
    """Class 0 where the one pixel is below its threshold."""

    def forward(self, image):
        score = image.flatten(1)[:, 0] - 0.5
        return torch.stack([-score, score], dim=1)


IMAGES = 3000
# P(class 0) is a little under one half: naming it is an error
UNDECIDED = torch.full((IMAGES, 1, 1, 1), 0.5 + 0.001)


def two_classes():
    return SmoothedClassifier(compose(Gaussian(0.5)), last, Reads())


def test_predict_names_the_less_probable_class_at_most_as_often_as_it_says():
    alpha = 0.1
    answers = predict(two_classes(), UNDECIDED, n=100, alpha=alpha, seed=3, batch_size=50_000)
    wrong = sum(answer.label == 0 for answer in answers) / IMAGES
    named = sum(answer.label is not None for answer in answers) / IMAGES
    assert wrong <= alpha / 2 + 4 * math.sqrt(alpha / 2 / IMAGES)
    assert wrong > 0
    assert named < alpha + 4 * math.sqrt(alpha / IMAGES)


@pytest.mark.parametrize("mode", [{}, {"mode": "radius", "tolerance": 0.1}], ids=["fixed", "radius"])
def test_certify_names_the_less_probable_class_at_most_as_often_as_it_says(mode):
    """As many draws choose the class as estimate it: if they were the same draws, twice as many would be wrong."""
    alpha, images = 0.1, UNDECIDED[: IMAGES // 3]
    answers = certify(two_classes(), images, n_select=100, n_estimate=100, alpha=alpha, seed=3, **mode)
    wrong = sum(answer.label == 0 for answer in answers) / len(images)
    assert wrong <= alpha / 2 + 4 * math.sqrt(alpha / 2 / len(images))
    assert wrong > 0
