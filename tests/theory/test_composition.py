import math
from abc import ABC, abstractmethod

import mpmath
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mpmath import mpf

from ars.theory import Gaussian, Laplace, compose, noise_of_share, repeat, split_noise, total_noise
from ars.theory.numeric import Numeric

sigmas = st.floats(min_value=1e-6, max_value=1e6)
TIGHT = mpf("1e-14")


def exact_total(levels):
    return 1 / mpmath.sqrt(mpmath.fsum(1 / mpf(level) ** 2 for level in levels))


@given(st.lists(sigmas, min_size=1, max_size=20))
def test_total_noise_is_rounded_down(levels):
    exact = exact_total(levels)
    assert exact * (1 - TIGHT) <= total_noise(levels) <= exact


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=2, max_size=20))
@example([2.225073858507e-311, 2.225073858507e-311])  # where a relative margin is none
@example([5e-324, 5e-324])
def test_composed_privacy_loss_is_rounded_up(losses):
    exact = mpmath.sqrt(mpmath.fsum(mpf(mu) ** 2 for mu in losses))
    composed = compose(*map(Gaussian, losses)).mu
    assert composed >= exact
    assert composed <= exact * (1 + TIGHT) + mpf(1e-320)


@given(st.floats(min_value=0, max_value=1e6), st.integers(min_value=1, max_value=10**6))
@example(0.1, 3)
def test_the_privacy_loss_of_repeats_is_rounded_up(mu, count):
    exact = mpf(mu) * mpmath.sqrt(count)
    repeated = repeat(Gaussian(mu), count).mu
    assert exact <= repeated <= exact * (1 + TIGHT) + mpf(1e-320)


def test_parts_that_are_not_gaussian_are_not_composed_by_guess():
    def uniform(alpha):
        return 1 - alpha

    assert compose(uniform) is uniform
    with pytest.raises(TypeError, match="privacy profile"):
        compose(Gaussian(1.0), uniform)


class Promise(Gaussian):
    """Less than its mu says; its privacy profile is that of mu."""

    def __call__(self, alpha, /):
        return 0.5 * super().__call__(alpha)


class Kept(Promise):
    def delta(self, epsilon):
        return super().delta(epsilon) + 0.5


def test_a_profile_that_promises_more_than_its_part_is_not_composed():
    for whole in (lambda part: compose(part, Gaussian(0.1)), lambda part: repeat(part, 2)):
        with pytest.raises(TypeError, match="Promise has its own trade-off function but inherits"):
            whole(Promise(0.1))
        assert whole(Kept(0.1))(0.3) < Promise(0.1)(0.3)
    with pytest.raises(TypeError, match="function has none"):
        repeat(lambda alpha: 1 - alpha, 2)


class Named(Gaussian):
    """As it is."""


class Derived(ABC):
    """Derives its profile from its function, which others give."""

    @abstractmethod
    def __call__(self, alpha, /):
        pass

    def delta(self, epsilon):
        return Gaussian(0.1).delta(epsilon)


class Given(Derived):
    def __call__(self, alpha, /):
        return Gaussian(0.1)(alpha)


class LessOfBoth(Numeric):
    def __call__(self, alpha, /):
        return 0.5 * super().__call__(alpha)


def test_whose_profile_is_its_own_is_composed():
    assert compose(Named(0.1), Laplace(0.1))(0.3) <= Named(0.1)(0.3)
    assert compose(Given(), Laplace(0.1))(0.3) <= Given()(0.3)
    less = LessOfBoth(((Laplace(0.1), 2),))
    for whole in (lambda: compose(less, Gaussian(0.1)), lambda: repeat(less, 2)):
        with pytest.raises(TypeError, match="LessOfBoth has its own trade-off function"):
            whole()


def test_what_is_composed_can_be_repeated():
    once = compose(Laplace(0.1), Laplace(0.1), Gaussian(0.2))
    assert repeat(once, 3) == compose(once, once, once)
    assert repeat(once, 1) is once


@given(sigmas, st.floats(min_value=1e-12, max_value=1e6))
@example(sigma=1e-200, excess=1.0)
@example(sigma=1e200, excess=1.0)
@example(sigma=0.5, excess=2.0**-52)
def test_split_noise_rounds_the_second_step_up(sigma, excess):
    first = sigma * (1 + excess)
    assume(sigma < first)
    kept, second = split_noise(sigma, first=first)
    exact = 1 / mpmath.sqrt(1 / mpf(sigma) ** 2 - 1 / mpf(first) ** 2)
    assert kept == first
    assert exact <= second <= exact * (1 + TIGHT)


@given(sigmas, st.floats(min_value=0.01, max_value=0.99))
def test_a_split_budget_is_never_overspent(sigma, share):
    first, second = split_noise(sigma, first=noise_of_share(sigma, share))
    assert exact_total([first, second]) >= mpf(sigma)
    assert total_noise([first, second]) == pytest.approx(sigma, rel=1e-13)


@given(sigmas, st.floats(min_value=1e-6, max_value=1 - 1e-6))
def test_the_first_step_spends_its_share(sigma, share):
    assert (sigma / noise_of_share(sigma, share)) ** 2 == pytest.approx(share, rel=1e-13)


BAD = [0.0, -1.0, math.inf, math.nan]


def test_what_has_no_steps_or_only_one_is_refused():
    for ask, named in (
        (compose, "nothing to compose"),
        (lambda: total_noise([]), "one or more"),
        (lambda: split_noise(0.5, first=0.5), "need first > sigma > 0"),
    ):
        with pytest.raises(ValueError, match=named):
            ask()


@pytest.mark.parametrize("sigma", BAD)
def test_a_noise_level_that_is_no_noise_level_is_refused(sigma):
    with pytest.raises(ValueError, match="positive noise levels"):
        total_noise([1.0, sigma])
    with pytest.raises(ValueError, match="need first > sigma > 0"):
        split_noise(sigma, first=2.0)
    with pytest.raises(ValueError, match="need first > sigma > 0"):
        split_noise(0.5, first=sigma)
    with pytest.raises(ValueError, match="sigma must be positive and finite"):
        noise_of_share(sigma, 0.5)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_a_share_must_leave_something_for_both_steps(share):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        noise_of_share(0.5, share)
