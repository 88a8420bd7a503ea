import pytest
import torch

from ars.smoothing import (
    Gaussian,
    InputDependentClassifier,
    LocalGaussian,
    NearestNoise,
    SmoothedClassifier,
    compose,
    last,
)
from ars.theory import Ball, UnsupportedThreat, sukenik_radius


@pytest.fixture
def model(images):
    noise = NearestNoise(torch.rand(40, 3, 8, 8), sigma=0.5, centre=2.0, rate=0.01, neighbours=20)
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
        assert local.mechanism.sigmas == (level,)
        assert local.classifier is model.classifier
        assert local.radius(0.9, 0.05, norm="l2", dim=192) == sukenik_radius(level, 0.01, 192, 0.9)
        assert local.radius(0.9, 0.05, norm="linf", dim=192) == sukenik_radius(level, 0.01, 192, 0.9, norm="linf")


@pytest.mark.parametrize("training", [True, False])
def test_local_models_leave_the_mode_of_the_network_alone(model, images, training):
    model.train(training)
    assert all(local.training == training for local in model.localise(images))
    assert model.classifier.training == training


def test_a_model_with_fixed_noise_serves_every_image_itself(images):
    plain = SmoothedClassifier(compose(Gaussian(0.5)), last, torch.nn.Flatten())
    assert all(local is plain for local in plain.localise(images))


def test_no_f_dp_guarantee_is_stated_for_noise_that_moves():
    with pytest.raises(UnsupportedThreat, match="no f-DP guarantee"):
        LocalGaussian(0.5, 0.01).guarantee(Ball("l2", 192, 0.1))
