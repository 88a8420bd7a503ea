import pytest
import torch

from ars.smoothing import Gaussian, MaskedGaussian, Release, compose, last, minimum_variance


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


def test_the_combination_of_three_steps_is_unbiased():
    x = torch.rand(2, 3, 4, 4, generator=generator(1), dtype=torch.float64)
    silent = random_releases(x, torch.zeros(3, *x.shape, dtype=torch.float64))
    assert torch.allclose(minimum_variance(silent), x, rtol=0, atol=1e-12)


def coefficients(x):
    """The weight of each step's noise in the combination, read off by making that noise 1."""
    zero = torch.zeros(3, *x.shape, dtype=torch.float64)
    parts = []
    for step in range(3):
        unit = zero.clone()
        unit[step] = 1
        parts.append(minimum_variance(random_releases(x, unit)) - minimum_variance(random_releases(x, zero)))
    return parts


def test_its_variance_is_one_over_the_sum_of_the_precisions():
    x = torch.rand(2, 3, 4, 4, generator=generator(1), dtype=torch.float64)
    variance = sum(part**2 for part in coefficients(x))
    precision = sum((r.weight / r.std) ** 2 for r in random_releases(x, torch.zeros(3, *x.shape).double()))
    assert torch.allclose(variance, (1 / precision).expand_as(x), rtol=1e-9)


def test_no_other_unbiased_combination_has_less_variance():
    x = torch.rand(2, 3, 4, 4, generator=generator(1), dtype=torch.float64)
    releases = random_releases(x, torch.zeros(3, *x.shape, dtype=torch.float64))
    # coefficients c_j of the releases themselves; unbiased as long as sum c_j w_j = 1
    best = [part / r.std for part, r in zip(coefficients(x), releases, strict=True)]
    weights = [r.weight for r in releases]
    least = sum((c * r.std) ** 2 for c, r in zip(best, releases, strict=True))
    for seed in range(20):
        away = torch.randn(3, *x.shape, generator=generator(seed), dtype=torch.float64)
        # keep the sum of d_j w_j at 0 by letting the last step make up for the first two
        d = [away[0], away[1], -(away[0] * weights[0] + away[1] * weights[1]) / weights[2]]
        other = sum(((c + 0.1 * e) * r.std) ** 2 for c, e, r in zip(best, d, releases, strict=True))
        assert (other > least).all()


def test_with_one_unmasked_step_the_combination_is_the_release(images):
    releases = compose(Gaussian(0.5)).release(images, generator())
    assert torch.allclose(minimum_variance(releases), releases[0].value, rtol=1e-6, atol=1e-7)
    assert last(releases) is releases[0].value


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
