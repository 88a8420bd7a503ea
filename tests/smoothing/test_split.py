import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from ars.methods.adaptive import adaptive, fix_split
from ars.smoothing import Gaussian, MaskedGaussian
from ars.smoothing.mechanism import SCALE_ERROR
from ars.smoothing.split import LEAST, MOST, LearnedSplit
from ars.theory import Ball

SIGMA = 0.7
BALL = Ball("linf", 192, 0.01)
floats32 = st.floats(width=32, allow_nan=False)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def split_at(logit, sigma=SIGMA):
    split = LearnedSplit(sigma)
    with torch.no_grad():
        split.logit.fill_(logit)
    return split


@pytest.fixture
def learned(constant_mask):
    """An ARS model with a learned split at a logit; its classifier answers with the means of the channels."""

    def make(logit=0.0, mask=0.5):
        model = adaptive(torch.nn.Flatten(), constant_mask(mask), sigma=SIGMA, share="learned")
        with torch.no_grad():
            model.mechanism.steps[0].split.logit.fill_(logit)
        return model

    return make


def check(split):
    assert LEAST <= split.share <= MOST + 1e-15
    for step, stated in enumerate(split.sigmas):
        assert split.sigma < stated < math.inf
        scale = float(split.scale(step).detach())
        assert stated <= scale <= stated * (1 + 2 * SCALE_ERROR)


@given(floats32, st.sampled_from([1e-3, 0.12, 0.7, 1.5, 100.0]))
def test_any_logit_states_a_valid_split_and_never_scales_the_noise_below_it(logit, sigma):
    check(split_at(logit, sigma))


def test_a_logit_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="share"):
        _ = split_at(math.nan).sigmas


@given(st.floats(-20, 20, width=32))
def test_the_guarantee_is_that_of_the_fixed_split_and_spends_exactly_the_budget(logit):
    mask = torch.nn.Identity()
    model = adaptive(torch.nn.Flatten(), mask, sigma=SIGMA, share="learned")
    with torch.no_grad():
        model.mechanism.steps[0].split.logit.fill_(logit)
    fixed = adaptive(torch.nn.Flatten(), mask, sigma=SIGMA, share=model.mechanism.steps[0].split.share)
    mu = model.guarantee(BALL).mu
    assert mu >= fixed.guarantee(BALL).mu
    assert mu == pytest.approx(fixed.guarantee(BALL).mu, rel=1e-12)
    exact = BALL.l2_radius / SIGMA
    assert exact * (1 - 1e-13) <= mu <= exact * (1 + 1e-6)
    radii = [it.radius(0.9, 0.1, norm="linf", dim=192) for it in (model, fixed)]
    assert radii[0] == radii[1] > 0


@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("logit", [-3.0, 0.0, 5.0])
def test_the_noise_that_is_drawn_has_the_stated_deviation(learned, logit, seed):
    model = learned(logit)
    x = torch.rand(2000, 3, 8, 8, generator=generator(1))
    first, second = model.mechanism.release(x, generator(seed))
    share = LEAST + (MOST - LEAST) / (1 + math.exp(-logit))
    expected = SIGMA / math.sqrt(share), SIGMA / math.sqrt(1 - share) * 0.5
    for release, std in zip((first, second), expected, strict=True):
        noise = (release.value - release.weight * x).detach().double()
        assert float(noise.std()) == pytest.approx(std, rel=norm.isf(1e-8) / math.sqrt(2 * noise.numel()))
        assert abs(float(noise.mean())) < norm.isf(1e-8) * std / math.sqrt(noise.numel())


def test_gradients_flow_through_both_noise_scales_and_the_combination(learned, images):
    def output(logit):
        model = learned(logit)
        value = model(images, generator(3)).double().square().mean()
        return model.mechanism.steps[0].split.logit, value

    logit, value = output(0.3)
    value.backward()
    step = 1e-2
    slope = (output(0.3 + step)[1] - output(0.3 - step)[1]).item() / (2 * step)
    assert float(logit.grad) == pytest.approx(slope, rel=1e-2)
    assert slope != 0


def test_the_split_is_stored_once_and_a_copy_has_its_own(learned):
    model = learned(1.0)
    assert [name for name in model.state_dict() if "logit" in name] == ["mechanism.steps.0.split.logit"]
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.mechanism.steps[0].split.logit.fill_(-1.0)
    assert other.mechanism.sigmas != model.mechanism.sigmas
    assert other.mechanism.sigmas == pytest.approx(tuple(reversed(model.mechanism.sigmas)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_another_dtype_of_the_parameter_keeps_noise_and_guarantee_together(learned, dtype):
    split = learned(1.2345).mechanism.steps[0].split.to(dtype)
    check(split)


def test_a_settled_model_is_the_same_mechanism_in_plain_numbers(learned, images):
    model = learned(1.7).eval()
    plain = fix_split(model)
    assert [type(step) for step in plain.mechanism.steps] == [Gaussian, MaskedGaussian]
    assert plain.mechanism.sigmas == model.mechanism.sigmas
    assert plain.guarantee(BALL) == model.guarantee(BALL)
    assert not plain.training
    with torch.no_grad():
        assert torch.allclose(plain(images, generator(5)), model(images, generator(5)), rtol=1e-5, atol=1e-5)
    assert fix_split(plain) is plain
