"""Noise that follows the data: the distances, the level, and what each image is certified with."""

import math

import pytest
import torch

from ars.smoothing import (
    Gaussian,
    InputDependentClassifier,
    LocalGaussian,
    NearestNoise,
    SmoothedClassifier,
    compose,
    input_dependent,
    last,
)
from ars.smoothing.input_dependent import mean_distance
from ars.theory import Ball, UnsupportedThreat, sukenik_radius


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def references():
    return rand(300, 3, 8, 8, seed=1)


def by_hand(image, references, neighbours):
    return float((references.double() - image.double()).flatten(1).norm(dim=1).sort().values[:neighbours].mean())


@pytest.mark.parametrize("block", [2**23, 192 * 7, 1])
def test_distances_are_exact_whatever_the_blocks(references, monkeypatch, block):
    monkeypatch.setattr(input_dependent, "BLOCK", block)
    monkeypatch.setattr(input_dependent, "QUERIES", 2)
    x = rand(5, 3, 8, 8, seed=2)
    expected = [by_hand(image, references, 20) for image in x]
    assert mean_distance(x, references, 20).tolist() == pytest.approx(expected, rel=1e-13)


def test_a_tiny_distance_keeps_its_digits():
    """Expanded squares would give 0 or noise here; torch takes them by default from 26 references on."""
    x = rand(1, 3, 32, 32)
    near = torch.cat([rand(39, 3, 32, 32, seed=1).double(), x.double()])
    near[-1, 0, 0, 0] += 1e-9
    assert float(mean_distance(x, near, 1)) == pytest.approx(1e-9, rel=1e-6)
    among = torch.cat([rand(60, 3, 32, 32, seed=1).double(), near, rand(60, 3, 32, 32, seed=2).double()])
    assert float(mean_distance(x, among, 1)) == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("copies", [5, 25, 80])
def test_copies_of_an_image_hide_none_of_its_neighbours(references, copies):
    """Squares that differ by less than their rounding do not say which is nearer."""
    x = rand(2, 3, 8, 8, seed=2)
    crowd = x[:1].double().repeat(copies, 1, 1, 1)
    crowd[:, 0, 0, 0] += 1e-10 * torch.arange(copies, 0, -1)
    every = torch.cat([references.double(), crowd])
    expected = [by_hand(image, every, 20) for image in x]
    assert mean_distance(x, every, 20).tolist() == pytest.approx(expected, rel=1e-9)


def test_an_image_among_the_references_can_leave_itself_out(references):
    itself = mean_distance(references[:4], references, 20, skip_nearest=True)
    others = [by_hand(references[i], torch.cat([references[:i], references[i + 1 :]]), 20) for i in range(4)]
    assert itself.tolist() == pytest.approx(others, rel=1e-13)


def test_eight_bit_references_are_the_same_images():
    stored = (rand(50, 3, 8, 8) * 255).round().to(torch.uint8)
    x = rand(3, 3, 8, 8, seed=3)
    assert mean_distance(x, stored, 20).tolist() == pytest.approx(
        mean_distance(x, stored.double() / 255, 20).tolist(), rel=1e-14
    )


def test_sigma_follows_the_distance(references):
    noise = NearestNoise(references, sigma=0.25, centre=3.0, rate=0.01, neighbours=20)
    x = rand(4, 3, 8, 8, seed=4)
    expected = [0.25 * math.exp(0.01 * (by_hand(image, references, 20) - 3.0)) for image in x]
    assert noise(x).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1e-4, 0.1, 3.0])
def test_log_sigma_is_lipschitz(references, size):
    """On random pairs, and on pairs that move straight away from the references, where the constant is reached."""
    noise = NearestNoise(references, sigma=0.5, centre=0.0, rate=0.01, neighbours=20)
    x = rand(30, 3, 8, 8, seed=5)
    step = torch.randn(x.shape, generator=torch.Generator().manual_seed(6))
    away = torch.cat([step[:15], 50 * (x[15:] - references.mean(0))])
    moved = x + size * away / away.flatten(1).norm(dim=1)[:, None, None, None]
    distance = (moved.double() - x.double()).flatten(1).norm(dim=1)
    change = (noise(moved).log() - noise(x).log()).abs()
    assert torch.all(change <= 0.01 * distance + 1e-9)
    assert float((change / (0.01 * distance)).max()) > 0.6


@pytest.mark.parametrize("changed", [{"neighbours": 301}, {"neighbours": 0}, {"rate": -1.0}, {"sigma": 0.0}])
def test_what_makes_no_sense_is_refused(references, changed):
    with pytest.raises(ValueError, match=next(iter(changed))):
        NearestNoise(references, **{"sigma": 0.5, "centre": 0.0, "rate": 0.01, "neighbours": 20, **changed})


@pytest.fixture
def model():
    noise = NearestNoise(rand(40, 3, 8, 8, seed=7), sigma=0.5, centre=2.0, rate=0.01, neighbours=20)
    return InputDependentClassifier(noise, torch.nn.Flatten(), train_sigma=0.53)


def test_training_uses_constant_noise(model, images):
    assert model.mechanism.sigmas == (0.53,)
    drawn = model(images, torch.Generator().manual_seed(0))
    constant = Gaussian(0.53).release(images, [], torch.Generator().manual_seed(0)).value
    assert torch.equal(drawn, constant.flatten(1))


def test_each_image_gets_its_own_noise_and_radius(model, images):
    levels = model.noise(images).tolist()
    assert len(set(levels)) == len(images)
    for local, level in zip(model.localise(images), levels, strict=True):
        assert local.sigmas == (level,)
        drawn, expected = (
            it.release(images, [], torch.Generator().manual_seed(3)) for it in (local.steps[0], Gaussian(level))
        )
        assert torch.equal(drawn.value, expected.value)
        assert local.radius(0.9, 0.05, norm="l2", dim=192) == sukenik_radius(level, 0.01, 192, 0.9)
        assert local.radius(0.9, 0.05, norm="linf", dim=192) == sukenik_radius(level, 0.01, 192, 0.9, norm="linf")


def test_a_model_with_fixed_noise_has_one_mechanism_for_every_image(images):
    plain = SmoothedClassifier(compose(Gaussian(0.5)), last, torch.nn.Flatten())
    assert [local is plain.mechanism for local in plain.localise(images)] == [True] * len(images)


def test_no_f_dp_guarantee_is_stated_for_noise_that_moves():
    with pytest.raises(UnsupportedThreat, match="f-DP"):
        LocalGaussian(0.5, 0.01).guarantee(Ball("l2", 192, 0.1))
