import math

import pytest
import torch
from torch import nn

from ars.smoothing import Composition, Gaussian, MaskedGaussian, compose
from ars.theory import Ball


def test_each_step_sees_the_image_and_the_releases_before_it(images):
    seen = []

    class Spy(Gaussian):
        def release(self, x, past, generator):
            seen.append((x, list(past)))
            return super().release(x, past, generator)

    releases = compose(Spy(0.5), Spy(0.6), Spy(0.7)).release(images, torch.Generator().manual_seed(0))
    for place, (x, past) in enumerate(seen):
        assert x is images
        assert past == releases[:place]


def test_steps_draw_independent_noise():
    x = torch.zeros(500, 3, 8, 8)
    first, second = compose(Gaussian(1.0), Gaussian(1.0)).release(x, torch.Generator().manual_seed(0))
    correlation = float((first.value * second.value).mean())
    assert abs(correlation) < 4 / math.sqrt(x.numel())


def test_the_guarantee_is_that_of_one_step_with_the_total_noise(constant_mask):
    ball = Ball("linf", 192, 0.02)
    steps = Gaussian(0.5), MaskedGaussian(0.7, constant_mask(1.0)), Gaussian(1.1)
    total = 1 / math.sqrt(1 / 0.5**2 + 1 / 0.7**2 + 1 / 1.1**2)
    expected = 0.02 * math.sqrt(192) / total
    mu = compose(*steps).guarantee(ball).mu
    assert mu == pytest.approx(expected, rel=1e-13)
    assert mu >= expected * (1 - 1e-15)


def test_the_noise_budgets_are_stated_in_order():
    assert compose(Gaussian(0.5), Gaussian(0.25)).sigmas == (0.5, 0.25)


def test_a_mechanism_without_steps_is_refused():
    with pytest.raises(ValueError, match="at least one step"):
        Composition([])


@pytest.mark.parametrize("wrong", [0.5, [Gaussian(0.5)], nn.Identity(), Gaussian])
def test_what_is_no_step_is_refused(wrong):
    with pytest.raises(TypeError, match="steps"):
        compose(Gaussian(0.5), wrong)


def test_the_parameters_of_a_mask_are_parameters_of_the_mechanism(smooth_mask):
    mask = smooth_mask()
    mechanism = compose(Gaussian(0.5), MaskedGaussian(0.5, mask))
    assert {id(p) for p in mechanism.parameters()} == {id(p) for p in mask.parameters()}
