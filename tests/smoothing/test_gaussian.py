import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from scipy import stats

from ars.smoothing import Gaussian, GeneralisedNormal, LearnedSplit, MaskedGaussian
from ars.theory import Ball

RARE = stats.norm.isf(1e-8)  # standard errors to either side


@pytest.mark.false_alarm(1e-7)
def test_the_release_is_x_plus_noise_of_the_stated_scale(seed):
    x = torch.rand(200, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    release = Gaussian(0.7).release(x, [], torch.Generator().manual_seed(seed))
    noise = (release.value - x).double() / 0.7
    n = noise.numel()
    assert abs(float(noise.mean())) < RARE / math.sqrt(n)
    assert abs(float(noise.var()) - 1) < RARE * math.sqrt(2 / n)
    assert release.weight.unique().tolist() == [1.0]
    [std] = release.std.unique().tolist()
    assert 0.7 <= std <= 0.7 * (1 + 3e-6)  # float32 rounding never takes noise away


@given(
    st.floats(min_value=1e-3, max_value=1e3),
    st.floats(min_value=1e-6, max_value=100),
    st.integers(1, 10**6),
    st.sampled_from(["l2", "linf"]),
)
def test_the_privacy_loss_is_sensitivity_over_noise_rounded_up(sigma, radius, dim, norm):
    mpmath.mp.dps = 50
    sensitivity = mpf(radius) * (mpmath.sqrt(dim) if norm == "linf" else 1)
    exact = sensitivity / mpf(sigma)
    mu = Gaussian(sigma).guarantee(Ball(norm, dim, radius)).mu
    assert exact <= mu <= exact * (1 + mpf("1e-14"))


STEPS = {
    "Gaussian": Gaussian,
    "MaskedGaussian": lambda sigma: MaskedGaussian(sigma, torch.nn.Identity()),
    "GeneralisedNormal": lambda sigma: GeneralisedNormal(sigma, 2.25),
    "LearnedSplit": LearnedSplit,
}


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan, 1e-46, 1e-9, 9.9e-5, "0.5", None, True])
def test_a_noise_level_without_a_guarantee_is_refused(make, sigma):
    """Below 1e-4 the noise would be lost in float32."""
    with pytest.raises(ValueError, match="sigma must be"):
        make(sigma)


@pytest.mark.false_alarm(1e-7)
def test_the_least_noise_is_there_also_on_white(seed):
    x = torch.ones(100, 3, 16, 16)
    noise = (Gaussian(1e-4).release(x, [], torch.Generator().manual_seed(seed)).value - x).double() / 1e-4
    assert abs(float(noise.var()) - 1) < RARE * math.sqrt(2 / noise.numel())
