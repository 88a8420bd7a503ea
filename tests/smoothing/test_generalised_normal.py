import math

import pytest
import torch
from scipy.stats import gennorm, kstest, norm

from ars.smoothing import Gaussian, GeneralisedNormal, SmoothedClassifier, compose, last
from ars.smoothing.generalised_normal import generalised_normal_like
from ars.theory import Ball, Numeric, UnsupportedThreat, is_robust, noise_scale, rs_radius_l2, unicr_radius_linf


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.false_alarm(2e-7)
@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0, 2.25, 5.0])
def test_the_noise_has_the_stated_law(beta, seed):
    noise = generalised_normal_like(torch.empty(100, 3, 16, 16), beta, generator(seed)).double().flatten().numpy()
    assert kstest(noise, gennorm(beta, scale=noise_scale(1.0, beta)).cdf).pvalue > 1e-7
    assert noise.std() == pytest.approx(1, abs=norm.isf(1e-8) * math.sqrt(5 / 4 / len(noise)))


def test_noise_of_a_large_beta_has_no_least_absolute_value():
    """What underflows ends at one number, and a classifier that looks for that number sees through the noise."""
    noise = generalised_normal_like(torch.empty(100, 3, 32, 32), 20.0, generator()).abs().flatten()
    values, times = noise.unique(return_counts=True)
    assert values[0] < 1e-4
    assert times.max() <= 8


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("step", [GeneralisedNormal(0.5019, 2.25), Gaussian(0.5019)], ids=["generalised", "Gaussian"])
def test_the_default_dtype_takes_no_noise_away(step, dtype):
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        release = step.release(torch.zeros(1, 1, 2, 2, dtype=torch.float32), [], generator())
    finally:
        torch.set_default_dtype(before)
    assert 0.5019 <= float(release.std) <= 0.5019 * (1 + 3e-6)
    assert release.std.dtype == release.value.dtype == torch.float32


@pytest.mark.false_alarm(1e-6)
def test_signs_and_neighbours_are_independent(seed):
    """The transform of each of 32,640 correlations is nearly normal of variance 1/397."""
    noise = generalised_normal_like(torch.empty(400, 1, 16, 16), 2.25, generator(seed)).double().flatten(1)
    correlations = torch.corrcoef(noise.T) - torch.eye(256)
    assert float(correlations.atanh().abs().max()) < 6.9 / math.sqrt(397)
    assert abs(float(noise.sign().mean())) < norm.isf(1e-8) / math.sqrt(noise.numel())


def test_the_release_is_x_plus_noise():
    x = torch.rand(50, 3, 16, 16, generator=generator(1))
    release = GeneralisedNormal(0.7, 2.25).release(x, [], generator(2))
    assert torch.equal(release.value, x + release.std * generalised_normal_like(x, 2.25, generator(2)))
    [std] = release.std.unique().tolist()
    assert 0.7 <= std <= 0.7 * (1 + 3e-6)


def test_beta_2_is_the_gaussian_mechanism_draw_for_draw():
    x = torch.rand(4, 3, 8, 8, generator=generator())
    mine = GeneralisedNormal(0.5, 2.0).release(x, [], generator(3)).value
    assert torch.equal(mine, Gaussian(0.5).release(x, [], generator(3)).value)
    ball = Ball("linf", 192, 0.1)
    assert GeneralisedNormal(0.5, 2.0).guarantee(ball) == Gaussian(0.5).guarantee(ball)
    radius = GeneralisedNormal(0.5, 2.0).radius(0.9, 0.1, norm="l2", dim=192)
    assert radius == pytest.approx(rs_radius_l2(0.5, 0.9, 0.1), rel=1e-12)


def test_l2_is_refused_with_the_reason():
    step = GeneralisedNormal(0.5, 2.25)
    with pytest.raises(UnsupportedThreat, match="beta=2"):
        step.guarantee(Ball("l2", 192, 0.1))
    with pytest.raises(UnsupportedThreat, match="use beta=2"):
        step.radius(0.9, 0.1, norm="l2", dim=192)


@pytest.mark.parametrize("beta", [0.5, 6.0, math.inf, math.nan])
def test_a_shape_without_a_guarantee_is_refused(beta):
    with pytest.raises(ValueError, match="beta"):
        GeneralisedNormal(0.5, beta)


def test_the_classifier_reports_the_smaller_bound_and_the_guarantee_confirms_it():
    model = SmoothedClassifier(compose(GeneralisedNormal(0.5, 2.25)), last, torch.nn.Flatten())
    radius = model.radius(0.9, 0.1, norm="linf", dim=48)
    assert radius == unicr_radius_linf(0.5, 2.25, 48, 0.9, 0.1)
    f = model.guarantee(Ball("linf", 48, radius))
    assert isinstance(f, Numeric)
    assert f(0.1) > 0.5


def test_it_composes_with_gaussian_steps():
    two = SmoothedClassifier(compose(GeneralisedNormal(1.0, 2.25), Gaussian(1.0)), last, torch.nn.Flatten())
    radius = 1.28155 / math.sqrt(48 * (1 + 1 / 0.99394**2))
    assert is_robust(two.guarantee(Ball("linf", 48, 0.999 * radius)), 0.9, 0.1)
    assert not is_robust(two.guarantee(Ball("linf", 48, 1.001 * radius)), 0.9, 0.1)
