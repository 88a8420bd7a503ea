import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from mpmath import mpf
from scipy.special import ndtr, ndtri

from ars.theory import Gaussian, GeneralisedNormal, Laplace, Numeric, certified_radius, compose, is_robust, repeat
from ars.theory.numeric import PART_ERROR, discretise

LEVELS = [1e-9, 1e-4, 0.02, 0.1, 0.3, 0.5, 0.8, 0.99]


@pytest.mark.parametrize(("p", "expected"), [(0.6, 0.176), (0.9, 0.957), (0.99, 1.836), (0.9999, 3.090)])
def test_laplace_and_gaussian_on_a_scalar(p, expected):
    radius = certified_radius(lambda b: compose(Laplace(b.radius), Gaussian(b.radius)), p, 1 - p, norm="l2", dim=1)
    assert radius == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("p", "count"), [(0.6, 1), (0.9, 1), (0.99, 1), (0.9999, 1), (0.99, 10)])
def test_gaussians_by_numbers_stay_just_below_the_closed_form(p, count):
    radius = certified_radius(lambda b: Numeric(((Gaussian(b.radius), count),)), p, 1 - p, norm="l2", dim=1)
    error = radius * math.sqrt(count) / ndtri(p) - 1
    assert (-7e-5 if p < 0.9 else -7e-7) < error < 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("part", "count", "exact"),
    [
        (Gaussian(0.01), 3072, Gaussian(0.01 * math.sqrt(3072))),
        (Gaussian(2.0), 4, Gaussian(4.0)),
        (GeneralisedNormal(1.3, 2.25), 1, GeneralisedNormal(1.3, 2.25)),
        (GeneralisedNormal(0.4, 1.5), 1, GeneralisedNormal(0.4, 1.5)),
        (Laplace(0.7), 1, Laplace(0.7)),
        (Laplace(3.0), 1, Laplace(3.0)),
    ],
)
def test_numbers_never_promise_more_than_the_exact_function(part, count, exact, level):
    value = Numeric(((part, count),))(level)
    assert value <= exact(level)
    # the largest loss of Laplace noise, which decides at the ends, is rounded up by at most one step of the grid
    assert value == pytest.approx(exact(level), rel=2e-3 if isinstance(part, Laplace) else 1e-4, abs=1e-9)


@pytest.mark.parametrize("part", [Gaussian(0.8), Laplace(1.0), GeneralisedNormal(0.02, 2.25)])
def test_the_grid_loses_on_the_safe_side_only(part):
    """Between the grid points too, the profile of the discrete losses lies above the exact one."""
    typical = 2.5 * float(part.delta(np.zeros(1))[0])
    step = typical / 100
    losses = discretise(part, step)
    assert losses.mass.sum() + losses.infinite == pytest.approx(1.0, abs=1e-12)
    values = step * (losses.lower + np.arange(len(losses.mass)))
    epsilon = np.random.default_rng(0).uniform(0, 4 * typical, 200)
    gain = np.maximum(-np.expm1(epsilon[:, None] - values), 0.0)
    discrete = gain @ losses.mass + losses.infinite
    exact = part.delta(epsilon)
    assert np.all(discrete >= exact - 1e-15)
    assert np.all(discrete <= exact + 1e-4 * typical)


def test_a_mix_agrees_with_the_accountant():
    epsilon, delta = compose(Laplace(0.5), Laplace(0.5), Laplace(0.5), Gaussian(0.75)).profile
    accountant = (
        pld.from_laplace_mechanism(2.0, value_discretization_interval=1e-4)
        .self_compose(3)
        .compose(pld.from_gaussian_mechanism(1 / 0.75, value_discretization_interval=1e-4))
    )
    chosen = slice(0, len(epsilon) // 2, len(epsilon) // 40)
    theirs = np.array([accountant.get_delta_for_epsilon(value) for value in epsilon[chosen]])
    assert delta[chosen] == pytest.approx(theirs, abs=1e-7)


def test_order_and_nesting_do_not_matter():
    noise = GeneralisedNormal(0.3, 2.25)
    nested = compose(compose(Laplace(0.5), Gaussian(1.0)), repeat(noise, 3))
    flat = compose(noise, noise, Gaussian(1.0), noise, Laplace(0.5))
    assert [nested(level) for level in LEVELS] == pytest.approx([flat(level) for level in LEVELS], rel=1e-9, abs=1e-11)


def test_composition_by_numbers_is_symmetric_and_weaker_than_its_parts():
    f = compose(Laplace(0.5), GeneralisedNormal(0.4, 1.5))
    for level in LEVELS:
        assert f(level) <= min(Laplace(0.5)(level), GeneralisedNormal(0.4, 1.5)(level))
        if 0.01 < level < 0.9:
            assert f(f(level)) == pytest.approx(level, rel=1e-4)


def test_many_small_losses_are_those_of_gaussian_noise_with_the_same_information():
    """Noise of each pixel alone, at image size: the Fisher information is 1 / scale^2, the radius within a percent."""
    radius = 0.1 * ndtri(0.99) / math.sqrt(3072)
    near, far = (repeat(Laplace(share * radius / 0.1), 3072) for share in (0.99, 1.01))
    assert is_robust(near, 0.99, 0.01)
    assert not is_robust(far, 0.99, 0.01)


@pytest.mark.parametrize("whole", [repeat(Laplace(1.0), 3072), compose(Laplace(1000.0), Gaussian(1000.0))])
def test_losses_beyond_any_grid_promise_nothing(whole):
    assert [whole(level) for level in LEVELS] == [0.0] * len(LEVELS)


def test_the_accountant_and_torch_are_not_loaded_with_the_theory():
    code = "import sys, ars.theory; sys.exit('dp_accounting' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("count", "total", "level"), [(150_528, 14, 1e-11), (10**7, 12, 1e-9)])
def test_many_small_parts_promise_no_more_than_the_whole_in_the_tail(count, total, level):
    """Of generalised normal noise with beta = 2, which is normal, delta is off by several units of 1e-15."""
    parts = repeat(GeneralisedNormal(total / math.sqrt(2 * count), 2.0), count)
    assert parts(level) <= ndtr(-ndtri(level) - total)


@pytest.mark.parametrize(("shift", "beta"), [(6.06e-4, 1.99952), (0.0123, 1.9995), (0.1225, 1.9995), (0.5, 1.1)])
def test_the_delta_of_generalised_normal_noise_is_as_good_as_composition_counts_on(shift, beta):
    with mpmath.workdps(40):
        epsilon = np.linspace(0, shift * beta, 21)
        for given, found in zip(epsilon, GeneralisedNormal(shift, beta).delta(epsilon), strict=True):
            assert abs(mpf(float(found)) - exact_delta(shift, beta, given)) <= PART_ERROR


def exact_delta(shift, beta, epsilon):
    half, beta, epsilon = mpf(shift) / 2, mpf(beta), mpf(float(epsilon))

    def survival(x):
        tail = mpmath.gammainc(1 / beta, abs(x) ** beta, regularized=True) / 2
        return tail if x >= 0 else 1 - tail

    low, high = mpf(0), half + mpf(800) ** (1 / beta)
    for _ in range(120):
        middle = (low + high) / 2
        below = (middle + half) ** beta - abs(middle - half) ** beta <= epsilon
        low, high = (middle, high) if below else (low, middle)
    return survival(low - half) - mpmath.exp(epsilon) * survival(low + half)
