import math

import pytest
import torch
from scipy.stats import norm
from torch import nn

from ars.smoothing import Gaussian, MaskedGaussian, compose, minimum_variance
from ars.smoothing.masked import LEAST_RMS, WeightRange
from ars.smoothing.mechanism import SCALE_ERROR
from ars.theory import Ball, UnsupportedThreat

from .conftest import Given


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images_innermost(weight):
    """The same weights, where those of other images lie between an image's own."""
    return weight.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)


@pytest.mark.parametrize(
    "lay",
    [lambda it: it, lambda it: it.to(memory_format=torch.channels_last), images_innermost],
    ids=["contiguous", "channels last", "images innermost"],
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 3, 32, 32), (2, 3, 224, 224)])
def test_the_noise_is_never_below_sigma_times_the_norm_over_all_coordinates(shape, channels, lay):
    """s = sigma ||w|| / sqrt(d), d = channels x height x width, recomputed in float64."""
    batch, _, height, width = shape
    sigma = 0.7
    masks = {
        "uniform": torch.rand(batch, channels, height, width, generator=generator(1)),
        "sparse": (torch.rand(batch, channels, height, width, generator=generator(2)) < 0.01).float(),
        "tiny": torch.full((batch, channels, height, width), 0.123),
        "ones": torch.ones(batch, channels, height, width),
        "steep": torch.logspace(-6, 0, batch * channels * height * width).view(batch, channels, height, width),
    }
    for name, weight in masks.items():
        step = MaskedGaussian(sigma, Given(lay(weight)))
        release = step.release(torch.zeros(shape), [], generator())
        full = weight.double().expand(shape)
        declared = sigma * full.square().sum(dim=(1, 2, 3)).sqrt() / math.sqrt(full[0].numel())
        std = release.std.double().view(batch)
        assert (std >= declared).all(), name
        assert (std <= declared.clamp_min(sigma * LEAST_RMS) * (1 + 3 * SCALE_ERROR)).all(), name


@pytest.mark.false_alarm(1e-7)
def test_the_release_is_the_masked_image_plus_noise_of_the_stated_scale(seed):
    x = torch.rand(2000, 3, 8, 8, generator=generator(1))
    weight = torch.rand(2000, 1, 8, 8, generator=generator(2))
    release = MaskedGaussian(0.7, Given(weight)).release(x, [], generator(seed))
    noise = ((release.value - weight * x) / release.std).double()
    assert abs(float(noise.mean())) < norm.isf(1e-8) / math.sqrt(noise.numel())
    assert abs(float(noise.var()) - 1) < norm.isf(1e-8) * math.sqrt(2 / noise.numel())


def test_an_all_ones_mask_is_the_gaussian_mechanism(constant_mask):
    x = torch.rand(8, 3, 16, 16, generator=generator(1))
    masked = MaskedGaussian(0.5, constant_mask(1.0)).release(x, [], generator(2))
    plain = Gaussian(0.5).release(x, [], generator(2))
    largest = float((plain.value - x).abs().max())
    assert torch.allclose(masked.value, plain.value, rtol=0, atol=2 * SCALE_ERROR * largest + 5e-7)
    ball = Ball("linf", 768, 0.01)
    assert MaskedGaussian(0.5, constant_mask(1.0)).guarantee(ball) == Gaussian(0.5).guarantee(ball)


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-4])
def test_a_mask_of_next_to_nothing_still_has_noise(constant_mask, value):
    release = MaskedGaussian(0.5, constant_mask(value)).release(torch.rand(2, 3, 4, 4), [], generator())
    assert float(release.std.detach().min()) >= 0.5 * LEAST_RMS
    assert release.value.isfinite().all()


def test_the_mask_sees_the_combination_of_all_earlier_releases(smooth_mask, images):
    mask = smooth_mask()
    mechanism = compose(Gaussian(0.5), MaskedGaussian(0.6, smooth_mask(seed=2)), MaskedGaussian(0.7, mask))
    releases = mechanism.release(images, generator())
    (seen,) = mask.seen
    assert torch.equal(seen, minimum_variance(releases[:2]))


def test_with_no_earlier_step_the_mask_sees_nothing_of_the_image(smooth_mask, images):
    mask = smooth_mask()
    MaskedGaussian(0.5, mask).release(images, [], generator())
    assert not mask.seen[0].any()


def test_the_same_m1_gives_the_same_mask_and_noise_scale_for_any_image(smooth_mask, fixed_step, images):
    m1 = torch.randn(images.shape, generator=generator(7))
    mechanism = compose(fixed_step(m1), MaskedGaussian(0.5, smooth_mask()))
    _, here = mechanism.release(images, generator(3))
    _, there = mechanism.release(1 - images, generator(3))
    assert torch.equal(here.weight, there.weight)
    assert torch.equal(here.std, there.std)
    assert not torch.equal(here.value, there.value)


def test_a_mask_network_that_writes_into_its_input_does_not_change_m1(images):
    class Careless(nn.Module):
        def forward(self, image):
            return image.sigmoid_().mean(dim=1, keepdim=True)

    mechanism = compose(Gaussian(0.5), MaskedGaussian(0.5, Careless()))
    first, _ = mechanism.release(images, generator(4))
    assert torch.equal(first.value, Gaussian(0.5).release(images, [], generator(4)).value)


def test_autocast_leaves_noise_and_masking_in_float32(smooth_mask, images):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        releases = compose(Gaussian(0.5), MaskedGaussian(0.5, smooth_mask())).release(images, generator(3))
    first, second = releases
    assert second.value.dtype == torch.float32
    again = generator(3)
    noise = [torch.randn(images.shape, generator=again) for _ in range(2)]
    assert torch.allclose(first.value, images + first.std * noise[0], rtol=0, atol=1e-6)
    assert torch.allclose(second.value, second.weight * images + second.std * noise[1], rtol=0, atol=1e-6)
    rms = second.weight.double().square().mean(dim=(1, 2, 3), keepdim=True).sqrt()
    assert torch.allclose(second.std.double(), 0.5 * rms, rtol=3e-6, atol=0)


@pytest.mark.parametrize("shape", [(4, 2, 8, 8), (1, 1, 8, 8), (4, 8, 8), (4, 1, 1, 1), (8, 1, 8, 8), None])
def test_a_mask_of_the_wrong_shape_or_kind_is_refused(images, shape):
    weight = torch.ones(shape) if shape else (torch.ones(4, 1, 8, 8), None)
    with pytest.raises(ValueError, match="the mask must give"):
        MaskedGaussian(0.5, Given(weight)).release(images, [], generator())


def weight_range(images, *weights):
    """What was seen of an unmasked step followed by a masked one, for each of the masks."""
    seen = WeightRange()
    for weight in weights:
        mechanism = compose(Gaussian(0.5), MaskedGaussian(0.5, Given(weight)))
        seen.add(mechanism.steps, mechanism.release(images, generator()))
    return seen


@pytest.mark.parametrize("bad", [1.001, -1e-6, math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_weight_among_many_masks_is_found(images, bad, place):
    weights = [torch.rand(4, 1, 8, 8, generator=generator(1)) for _ in range(3)]
    weights[place][3, 0, 7, 7] = bad
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        weight_range(images, *weights).check()


def test_weights_from_zero_to_one_are_in_range(images):
    weight_range(images).check()
    weight_range(images, torch.zeros(4, 1, 8, 8), torch.ones(4, 3, 8, 8)).check()


def test_an_l2_ball_is_refused_with_the_way_out(constant_mask):
    mechanism = compose(Gaussian(0.5), MaskedGaussian(0.5, constant_mask(1.0)))
    with pytest.raises(UnsupportedThreat, match="Gaussian"):
        mechanism.guarantee(Ball("l2", 3072, 0.1))
