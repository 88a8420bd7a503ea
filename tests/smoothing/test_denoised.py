"""A denoiser after the releases: it sees them and their noise map, changes no guarantee, and ties no draws together."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ars.certification.certifier import certify
from ars.smoothing import (
    Gaussian,
    InputDependentClassifier,
    MaskedGaussian,
    NearestNoise,
    Release,
    SmoothedClassifier,
    compose,
    denoised,
    minimum_variance,
    noise_map,
    normal_like,
)
from ars.smoothing.mechanism import repeated


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Blur(nn.Module):
    """A denoiser of images and their noise map, without randomness: the noisier, the more it blurs."""

    def forward(self, image, noise):
        blurred = F.avg_pool2d(image, 3, stride=1, padding=1)
        return image + (blurred - image) * (noise / (noise + 0.1))


class Restless(nn.Module):
    """A denoiser that adds noise of its own, drawn as it is told."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, image, noise, generator):
        return image + 0.1 * self.draw(image, generator)


def shared_in_a_run(image, generator):
    """The same noise for all draws of a generator, whatever the number of generators."""
    runs = image.chunk(len(generator))
    return torch.cat([
        torch.randn(run[:1].shape, generator=own).expand_as(run) for run, own in zip(runs, generator, strict=True)
    ])  # fmt: skip


@pytest.fixture
def two_steps():
    torch.manual_seed(0)
    return compose(Gaussian(0.6), MaskedGaussian(0.8, nn.Sequential(nn.Conv2d(3, 1, 3, padding=1), nn.Sigmoid())))


def test_the_noise_map_is_the_standard_deviation_of_the_combination(two_steps, images):
    draws = images[:1].expand(4000, -1, -1, -1)
    first, second = two_steps.release(images[:1], generator(1))
    fixed = [Release(torch.zeros_like(draws), one.weight, one.std) for one in (first, second)]
    noisy = [
        Release(one.weight * draws + one.std * torch.randn(draws.shape, generator=generator(seed)), one.weight, one.std)
        for seed, one in enumerate((first, second))
    ]
    found = minimum_variance(noisy).std(dim=0).mean(dim=0)
    assert noise_map(fixed).shape == (4000, 1, 8, 8)
    # of 3 x 4,000 normal numbers the deviation is within 4.5% with a probability of 1 - 1e-11
    assert torch.allclose(found, noise_map(fixed)[0, 0], rtol=0.045)
    assert torch.allclose(noise_map([first]), torch.full((1, 1, 8, 8), 0.6))


def test_a_denoiser_sees_the_combination_and_its_noise_map_and_changes_no_guarantee(two_steps, images):
    seen = []

    class Spy(nn.Module):
        def forward(self, image, noise):
            seen.append((image, noise))
            return image

    plain = SmoothedClassifier(two_steps, minimum_variance, nn.Flatten())
    model = denoised(plain, Spy())
    releases, combined = model.stages(images, generator(2))
    [(image, noise)] = seen
    assert torch.equal(image, minimum_variance(releases))
    assert torch.equal(noise, noise_map(releases))
    assert torch.equal(combined, image)
    assert plain.combine is minimum_variance
    radii = [one.radius(0.9, 0.1, norm="linf", dim=192) for one in (plain, model)]
    assert radii[0] == radii[1] > 0
    with pytest.raises(TypeError, match="denoiser"):
        denoised(plain, lambda image, noise: image)


def classified(mechanism, denoiser):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    return denoised(SmoothedClassifier(mechanism, minimum_variance, network), denoiser)


@pytest.mark.parametrize("denoiser", [Blur(), Restless(normal_like)], ids=["blur", "restless"])
def test_a_denoised_model_is_certified_and_repeats_from_its_seed(two_steps, denoiser, images):
    model = classified(two_steps, denoiser)
    one, two = (certify(model, images, n_estimate=300, seed=5, indices=range(4)) for _ in range(2))
    assert one == two
    assert certify(model, images[2:], n_estimate=300, seed=5, indices=[2, 3]) == one[2:]
    assert certify(model, images, n_estimate=300, seed=6, indices=range(4)) != one


def test_the_randomness_of_a_denoiser_is_fresh_in_every_draw(two_steps, images):
    model = classified(two_steps, Restless(normal_like))
    releases = [repeated(release, 50) for release in two_steps.release(images[:1], generator(0))]
    rows = model.combined(releases, [generator(1), generator(2)]).flatten(1)
    assert len({tuple(row.tolist()) for row in rows}) == 50
    assert torch.equal(rows, model.combined(releases, [generator(1), generator(2)]).flatten(1))


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda image, generator: torch.randn(image.shape), "global generator"),
        (lambda image, generator: torch.randn(image.shape, generator=generator[0])[:1], "alone and among others"),
        (shared_in_a_run, "same randomness"),
    ],
    ids=["global", "shared in a batch", "shared in a run"],
)
def test_randomness_of_a_denoiser_that_ties_draws_together_is_refused(two_steps, draw, words, images):
    with pytest.raises(ValueError, match=words):
        certify(classified(two_steps, Restless(draw)), images, n_estimate=300, seed=5)


def test_the_noise_of_input_dependent_mechanisms_reaches_the_denoiser(images):
    noise = NearestNoise(images, sigma=0.5, centre=1.0, rate=0.01, neighbours=2)
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    model = denoised(InputDependentClassifier(noise, network, train_sigma=0.5), Blur())
    assert len(certify(model, images, norm="l2", n_estimate=100, seed=0)) == 4
