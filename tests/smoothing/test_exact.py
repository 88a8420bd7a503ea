"""Exact mode's releases: whole levels, the noise of the stated scale, and the sampler's model against mpmath."""

import math

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf
from scipy import stats
from scipy.special import ndtri

from ars.smoothing import Gaussian, MaskedGaussian, compose
from ars.smoothing.exact import check_sampler, exact_normal_like, exact_release
from ars.smoothing.mechanism import Rows
from ars.theory import Ball
from ars.theory.exact import EXACTLY, LEVEL_BITS, MASKED_UNITS, MOST_NOISE, RELATIVE_ERROR, UNITS

from .conftest import Given


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def grid(*shape, seed=3):
    return torch.randint(0, 256, shape, generator=generator(seed)).float() / 255


def integers(shape, seed):
    """The k that the sampler draws."""
    return torch.empty(shape, dtype=torch.int64).random_(0, 2**LEVEL_BITS, generator=generator(seed))


def exactly(k: int) -> mpf:
    """The z that belongs to k, in 60 digits."""
    return mpmath.sqrt(2) * mpmath.erfinv((2 * mpf(k) + 1) * mpf(2) ** -LEVEL_BITS - 1)


def within_model(k: int, z: float) -> bool:
    """Whether z is what the stated model allows for k, with room for the product with a scale."""
    with mpmath.workdps(60):
        return abs(mpf(z) - exactly(k)) <= abs(exactly(k)) * (RELATIVE_ERROR - 2.0**-53)


def test_the_sampler_keeps_to_its_model():
    shape = (1, 1, 1, 400)
    z = exact_normal_like(torch.zeros(shape), generator(5)).flatten().tolist()
    k = integers(shape, 5).flatten().tolist()
    assert all(within_model(level, value) for level, value in zip(k, z, strict=True))


@pytest.mark.parametrize("offset", [0, 1, 5, 2**10, 2**30, 2**45])
def test_the_sampler_keeps_to_its_model_in_the_tails(offset):
    ends = torch.tensor([offset, 2**LEVEL_BITS - 1 - offset])

    z = ends.mul(2).sub(2**LEVEL_BITS - 1).double().mul(2.0**-LEVEL_BITS).erfinv().mul(math.sqrt(2))
    assert z[0] == -z[1]
    for level, value in zip(ends.tolist(), z.tolist(), strict=True):
        assert within_model(level, value)


def test_a_sampler_of_float32_would_not_keep_to_the_model():
    k = integers((100,), 5)
    z = k.mul(2).sub(2**LEVEL_BITS - 1).double().mul(2.0**-LEVEL_BITS).float().erfinv().mul(math.sqrt(2))
    assert not all(within_model(level, value) for level, value in zip(k.tolist(), z.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [180.0, 0.5 * UNITS])
def test_ten_million_rounding_decisions_agree_with_exact_arithmetic(scale):
    """round(scale z) is recomputed by scipy; decisions near an edge, which are all that could differ, by mpmath."""
    shape = (1, 1, 2500, 4000)
    z = exact_normal_like(torch.zeros(shape), generator(8)).flatten().numpy()
    k = integers(shape, 8).flatten().numpy()
    rounded = np.rint(scale * z)
    lower = np.minimum(k, 2**LEVEL_BITS - 1 - k)  # the mirrored half, where ndtri loses no digits
    reference = scale * ndtri((2 * lower + 1).astype(np.float64) * 2.0 ** -(LEVEL_BITS + 1))
    reference = np.where(lower == k, reference, -reference)
    near = np.abs(reference - np.floor(reference) - 0.5) < 1e-6
    assert 5 < near.sum() < 50
    assert (np.rint(reference)[~near] == rounded[~near]).all()
    with mpmath.workdps(60):
        for level, decision in zip(k[near].tolist(), rounded[near].tolist(), strict=True):
            assert int(mpmath.nint(scale * exactly(level))) == decision


def steps(shape):
    weight = torch.rand(shape[0], 1, *shape[2:], generator=generator(2))
    weight[:, :, 0] = 0  # masked out
    weight[:, :, 1] = 1e-3  # released only with noise beyond MOST_NOISE
    return [Gaussian(0.4, exact=True), MaskedGaussian(0.7, Given(weight), exact=True)]


def test_every_release_is_made_of_whole_units():
    """Whatever the noise: there are no low bits to read."""
    x = torch.rand(4, 3, 8, 8, generator=generator(9))
    first, second = compose(*steps(x.shape)).release(x, generator())
    assert first.value.dtype == second.value.dtype == torch.float32
    units = first.value.double() * UNITS
    assert (units - units.round()).abs().max() <= units.abs().max() * 2**-23
    factor = torch.where(second.weight > 0, second.weight, 1.0).double()
    units = (second.value.double() / factor).expand_as(x) * MASKED_UNITS
    assert (units - units.round()).abs().max() <= units.abs().max() * 2**-22


def test_pixels_masked_out_do_not_depend_on_the_image():
    x, other = grid(2, 3, 8, 8, seed=1), grid(2, 3, 8, 8, seed=2)
    step = steps(x.shape)[1]
    one, two = (step.release(image, [], generator(4)) for image in (x, other))
    assert torch.equal(one.value[:, :, :2], two.value[:, :, :2])
    assert (one.weight[:, :, :2] == 0).all()
    assert not torch.equal(one.value[:, :, 2:], two.value[:, :, 2:])


def test_moving_an_image_by_a_unit_moves_the_release_by_exactly_a_unit():
    x = (0.5 * UNITS * torch.rand(2, 3, 8, 8, generator=generator(9)).double()).round() / UNITS
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    here, there = (exact_release(image, 0.5 * one, generator(4), units=UNITS) for image in (x, x + 1 / UNITS))
    assert torch.equal((UNITS * there).round(), (UNITS * here).round() + 1)


def test_the_privacy_loss_of_the_masked_step_is_what_prop_2_4_states():
    """sum over coordinates of w^2 / s^2 is at most d / sigma^2, in float64, for every image."""
    shape = (16, 3, 8, 8)
    step = steps(shape)[1]
    release = step.release(grid(*shape), [], generator())
    precision = (release.weight.double().expand(shape) / release.std.double()).square().sum(dim=(1, 2, 3))
    assert (precision <= 192 / 0.7**2 * (1 + 1e-6)).all()
    assert (precision >= 192 / 0.7**2 * 0.99).all()
    noise = (release.std.double() / release.weight.double())[release.weight > 0]
    assert noise.max() <= MOST_NOISE * 0.7 * (1 + 1e-6)


@pytest.mark.false_alarm(1e-6)
def test_the_noise_has_the_stated_scale_and_normal_tails(seed):
    """Of 768,000 numbers the largest is above 4.2 deviations, and below 7.6, but for 1e-7."""
    x = grid(1, 3, 8, 8).expand(4000, 3, 8, 8)
    weight = torch.rand(1, 1, 8, 8, generator=generator(2)).expand(4000, 1, 8, 8)
    for step in (Gaussian(0.4, exact=True), MaskedGaussian(0.7, Given(weight), exact=True)):
        release = step.release(x, [], generator(seed))
        z = ((release.value - release.weight * x) / release.std).double().flatten()
        assert abs(float(z.mean())) < stats.norm.isf(1e-8) / math.sqrt(len(z))
        assert float(z.square().mean()) == pytest.approx(1, abs=stats.norm.isf(1e-8) * math.sqrt(2 / len(z)) + 1e-3)
        assert stats.kstest(z[::50].numpy(), "norm").pvalue > 1e-7
        assert 4.2 < float(z.abs().max()) < 7.6


def test_rows_of_a_larger_batch_and_runs_of_it_draw_the_same_noise():
    x = torch.zeros(8, 3, 4, 4)
    whole = exact_normal_like(x, generator(1))
    assert torch.equal(exact_normal_like(x[:4], Rows(generator(1), part=1, parts=2)), whole[1::2])
    runs = exact_normal_like(x, [generator(1), generator(2)])
    assert torch.equal(runs[:4], exact_normal_like(x[:4], generator(1)))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_radius_is_below_the_default_one_and_close_to_it(norm):
    make = [lambda exact: Gaussian(0.4, exact=exact), lambda exact: Gaussian(0.7, exact=exact)]
    if norm == "linf":
        make[1] = lambda exact: MaskedGaussian(0.7, Given(torch.ones(1)), exact=exact)
    default, exact = (compose(*(step(mode) for step in make)) for mode in (False, True))
    assert 0 < exact.guarantee(Ball(norm, 3072, 0.01)).distance < 2e-6
    plain, safe = (steps.radius(0.9, 0.1, norm=norm, dim=3072) for steps in (default, exact))
    assert 0 < safe < plain
    assert safe > plain * (1 - 1e-4) - (2 / MASKED_UNITS if norm == "linf" else 2 * math.sqrt(3072) / UNITS)


def test_the_known_values_are_those_of_exact_arithmetic():
    with mpmath.workdps(60):
        for k, z in EXACTLY.items():
            assert abs(mpf(z) - exactly(k)) <= abs(exactly(k)) * 2**-52


def lose_the_tails(x):
    """As erfinv by Newton steps does: 1 - |x| is known to 2^-53 only, which moves the tails."""
    return torch.where(x.abs() > 1 - 1e-12, x.sign() * 5.7, x.erfinv())


@pytest.mark.parametrize("erfinv", [lose_the_tails, lambda x: x.float().erfinv().double()], ids=["tails", "float32"])
def test_a_device_with_another_erfinv_is_refused(monkeypatch, erfinv):
    check_sampler.cache_clear()
    check_sampler(torch.device("cpu"))
    check_sampler.cache_clear()
    monkeypatch.setattr(torch.Tensor, "erfinv_", erfinv)
    with pytest.raises(ValueError, match="erfinv"):
        Gaussian(0.5, exact=True).release(torch.zeros(1, 3, 4, 4), [], generator())
