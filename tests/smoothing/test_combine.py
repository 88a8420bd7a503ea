import pytest
import torch

from ars.smoothing import Gaussian, MaskedGaussian, Release, compose, minimum_variance


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_two_steps_give_the_closed_form_of_the_paper(smooth_mask, images):
    """c1 = s2^2 / (w^2 sigma1^2 + s2^2), c2 = w sigma1^2 / (w^2 sigma1^2 + s2^2)."""
    sigma_1 = 0.6
    first, second = compose(Gaussian(sigma_1), MaskedGaussian(0.8, smooth_mask())).release(images, generator())
    w, s2 = second.weight.double(), second.std.double()
    c1 = s2**2 / (w**2 * sigma_1**2 + s2**2)
    c2 = w * sigma_1**2 / (w**2 * sigma_1**2 + s2**2)
    expected = c1 * first.value.double() + c2 * second.value.double()
    assert torch.allclose(minimum_variance([first, second]).double(), expected, rtol=0, atol=2e-6)
    assert torch.allclose(c1 + c2 * w, torch.ones((), dtype=torch.float64))


def random_releases(x, noise, steps=3):
    releases = []
    for step in range(steps):
        weight = torch.rand(len(x), 1, *x.shape[2:], generator=generator(step), dtype=x.dtype)
        std = 0.3 + torch.rand(len(x), 1, 1, 1, generator=generator(10 + step), dtype=x.dtype)
        releases.append(Release(weight * x + std * noise[step], weight, std))
    return releases


def test_the_combination_of_three_steps_is_unbiased_and_its_variance_one_over_the_sum_of_the_precisions():
    """The weight of each step's noise is read off by making that noise 1."""
    x = torch.rand(2, 3, 4, 4, generator=generator(1), dtype=torch.float64)
    silent = random_releases(x, torch.zeros(3, *x.shape, dtype=torch.float64))
    assert torch.allclose(minimum_variance(silent), x, rtol=0, atol=1e-12)
    units = torch.eye(3, dtype=torch.float64).view(3, 3, 1, 1, 1, 1).expand(3, 3, *x.shape)
    variance = sum((minimum_variance(random_releases(x, unit)) - x) ** 2 for unit in units)
    precision = sum((release.weight / release.std) ** 2 for release in silent)
    assert torch.allclose(variance, (1 / precision).expand_as(x), rtol=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_an_all_zero_mask_gives_no_nan_forward_or_backward(constant_mask, images, steps):
    """One step: the masked one alone; two: after a Gaussian; three: two masked ones after it."""
    masks = [constant_mask(0.0) for _ in range(max(1, steps - 1))]
    masked = [MaskedGaussian(0.5, mask) for mask in masks]
    mechanism = compose(*masked) if steps == 1 else compose(Gaussian(0.5), *masked)
    x = images.clone().requires_grad_()
    combined = minimum_variance(mechanism.release(x, generator()))
    assert combined.isfinite().all()
    combined.sum().backward()
    assert x.grad.isfinite().all()
    assert all(mask.value.grad.isfinite() for mask in masks)


def test_a_pixel_that_every_step_masked_out_comes_out_as_zero(images):
    weight = torch.zeros(4, 1, 8, 8)
    weight[:, :, :4] = 1
    std = torch.full((4, 1, 1, 1), 0.5)
    combined = minimum_variance([Release(weight * images + torch.randn(images.shape), weight, std)])
    assert not combined[:, :, 4:].any()
    assert combined[:, :, :4].any()
