"""How often the bounds fail, on counts drawn from probabilities that are known."""

import numpy as np
import pytest
from scipy.stats import binom

from ars.certification.bounds import class_probabilities, lower_bound, upper_bound

REPEATS = 20_000
N = 300


def bounds_of(counts, alpha, bound):
    """(lower, upper) for each row of counts, class 0 being the predicted one; rows alike are computed once."""
    key = np.stack([counts[:, 0], counts[:, 1:].max(axis=1)], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    table = np.array([class_probabilities(counts[i].tolist(), 0, alpha, bound) for i in first])
    return table[inverse.reshape(-1)].T


def at_most(rate, alpha):
    """Whether an event of probability alpha could show this rate over the repeats: more have probability 1e-8."""
    return round(rate * REPEATS) <= binom.isf(1e-8, REPEATS, alpha)


def tight_probability(alpha, near):
    """The p just below a value of the lower bound, nearest to ``near``: there the bound fails most often."""
    values = np.array([lower_bound(k, N, alpha) for k in range(N + 1)])
    return float(values[np.abs(values - near).argmin()]) * (1 - 1e-9)


@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("near", [0.35, 0.5, 0.9])
@pytest.mark.parametrize("others", [(1.0,), (0.5, 0.5), (0.9, 0.05, 0.03, 0.02)])
def test_both_bounds_cover_all_classes_at_once(alpha, near, others, seed):
    rng = np.random.default_rng(seed)
    for bound, share in (("cohen", 1.0), ("classes", 0.9)):
        p = tight_probability(share * alpha, near)
        probabilities = np.array([p, *((1 - p) * np.array(others))])
        counts = rng.multinomial(N, probabilities / probabilities.sum(), size=REPEATS)
        lower, upper = bounds_of(counts, alpha, bound)
        missed_top = lower > p
        missed = missed_top | (upper < probabilities[1:].max())
        assert at_most(missed.mean(), alpha)
        # tight: at this p the lower bound alone uses its whole share
        assert missed_top.sum() > binom.ppf(1e-8, REPEATS, share * alpha)


@pytest.mark.false_alarm(1e-8)
@pytest.mark.parametrize("classes", [3, 10])
def test_the_upper_bound_covers_the_largest_of_many_equal_classes(classes, seed):
    """Class bounds at alpha close to 1, where the share of the others is large enough to be seen failing."""
    alpha = 0.5
    probabilities = np.array([0.4] + [0.6 / (classes - 1)] * (classes - 1))
    counts = np.random.default_rng(seed).multinomial(N, probabilities, size=REPEATS)
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


@pytest.mark.false_alarm(1e-8)
def test_testing_again_as_draws_come_in_is_caught_by_this_kind_of_test(seed):
    """The control: Clopper-Pearson looked at after every 10 draws fails more than twice as often as it says."""
    alpha, p, looks = 0.05, 0.7, range(10, N + 1, 10)
    rng = np.random.default_rng(seed)
    running = (rng.random((REPEATS, N)) < p).cumsum(axis=1)
    failed = np.zeros(REPEATS, dtype=bool)
    for n in looks:
        table = np.array([lower_bound(k, n, alpha) for k in range(n + 1)])
        failed |= table[running[:, n - 1]] > p
    assert failed.mean() > 2 * alpha
    assert not at_most(failed.mean(), alpha)
