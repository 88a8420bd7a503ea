"""Sound models pass every check; each kind of defect is found by name, also where it is small."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from ars.audit import guarantee_checks, noise_checks
from ars.audit.checks import CHECKS
from ars.audit.draws import LEAST_BLOCKS
from ars.audit.network_checks import independence
from ars.audit.planted import (
    SIGMA,
    Dropout,
    Generous,
    Mask,
    Noise,
    Own,
    Peeking,
    PerPixel,
    images,
    network,
    two_steps,
    uniform,
)
from ars.smoothing import Gaussian, GeneralisedNormal, MaskedGaussian, Release, SmoothedClassifier, compose, last
from ars.smoothing.input_dependent import InputDependentClassifier, NearestNoise
from ars.smoothing.mechanism import normal_like
from ars.smoothing.split import SplitGaussian

from ..certification.test_step_check import SOUND, Clamped


def smoothed(*steps, classifier=None):
    return SmoothedClassifier(compose(*steps), last, classifier or network())


class Smooth(nn.Module):
    """Logits for images of any size."""

    def forward(self, image):
        return torch.cat([image.mean(dim=(2, 3)), image.square().mean(dim=(2, 3))], dim=1)


@pytest.mark.parametrize("name", ["two steps", "Laplace, with a normal guarantee"])
def test_a_sound_model_passes(defects, name):
    """A false alarm has probability 1e-4 at most."""
    assert not defects(SmoothedClassifier(SOUND[name](), last, Smooth()), draws=2000)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 2, 3)], ids=str)
@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_every_sound_step_passes_at_other_sizes(defects, make, shape):
    """A false alarm has probability 1e-4 at most in each of the 30 audits."""
    torch.manual_seed(0)
    mechanism = make()
    if isinstance(mechanism.steps[0], SplitGaussian) and shape[1] < 16:
        pytest.skip("a U-Net needs 16 pixels")
    model = SmoothedClassifier(mechanism, last, Smooth())
    assert not defects(model, torch.rand(2, *shape), draws=2000)
    if all(type(step) is Gaussian for step in mechanism.steps):
        assert not defects(model, torch.rand(2, *shape), draws=2000, norm="l2")


def test_noise_of_the_image_passes_and_is_judged_by_its_radius(findings):
    noise = NearestNoise(images(), sigma=SIGMA, centre=0.0, rate=0.01, neighbours=1)
    model = InputDependentClassifier(noise, network(), train_sigma=SIGMA)
    found = findings(model)
    assert not [one for one in found.values() if one.passed is False]
    assert found["operating points"].passed is None
    assert found["radius"].passed


@pytest.mark.slow
def test_few_numbers_of_another_law_are_not_taken_for_normal_ones(defects):
    """Of 2,000 numbers nobody can say whether they are normal; a false alarm has probability 1e-4 at most."""
    assert not defects(SmoothedClassifier(SOUND["heavy tails"](), last, Smooth()), torch.rand(2, 1, 1, 1), draws=2000)


def test_a_check_that_does_not_apply_says_so(findings):
    found = findings(smoothed(GeneralisedNormal(SIGMA, 4.0)), names={"likelihood ratio", "operating points"})
    assert found["likelihood ratio"].passed is None
    assert found["likelihood ratio"].false_alarm == 0
    assert found["operating points"].passed


class Scaled(Gaussian):
    """Less noise than is stated, by a share."""

    def __init__(self, share):
        super().__init__(SIGMA)
        self.share = share

    def release(self, x, past, generator):
        good = super().release(x, past, generator)
        return Release(x + (1 - self.share) * (good.value - x), good.weight, good.std)


class SharedByBlock(Gaussian):
    """A tenth of the variance is shared by the draws of a generator."""

    def release(self, x, past, generator):
        one = torch.ones(1, 1, 1, 1)
        common = torch.cat([normal_like(x[:1], [source]).expand(len(x) // len(generator), -1, -1, -1)
                            for source in generator])  # fmt: skip
        noise = math.sqrt(0.9) * normal_like(x, generator) + math.sqrt(0.1) * common
        return Release(x + SIGMA * noise, one, SIGMA * one)


class EveryOther(nn.Module):
    """A vote that leans on the draw beside it, in batches of any size."""

    def forward(self, logits):
        return logits + 0.5 * logits.roll(1, dims=0)


class BackToTraining(nn.Module):
    def forward(self, logits):
        self.train()
        return logits


class CannotEval(nn.Module):
    def train(self, mode=True):
        self.training = True
        return self

    def forward(self, logits):
        return logits


class OwnGenerator(nn.Module):
    """Randomness that no global generator shows."""

    def __init__(self):
        super().__init__()
        self.source = np.random.default_rng(0)

    def forward(self, logits):
        return logits + torch.from_numpy(self.source.standard_normal(logits.shape)).float()


class Late(nn.Module):
    """Changes after so many calls, with memory in a plain attribute."""

    def __init__(self, calls):
        super().__init__()
        self.calls, self.made = calls, [0]

    def forward(self, logits):
        self.made[0] += 1
        return logits if self.made[0] <= self.calls else -logits


DEFECTS = {
    "half a percent less noise": (lambda: smoothed(Scaled(0.005)), "noise"),
    "common part": (lambda: smoothed(SharedByBlock(SIGMA)), "votes"),
    "clamped, of no known type": (lambda: smoothed(Clamped()), "noise"),
    "uniform, of no known type": (lambda: smoothed(Own(uniform)), "operating points"),
    "half precision": (lambda: smoothed(Noise(lambda noise: noise.half().float())), "low bits"),
    "own radius": (lambda: smoothed(Generous(SIGMA)), "radius"),
    "pixels for coordinates": (lambda: two_steps(PerPixel(SIGMA, Mask())), "likelihood ratio"),
    "a mask that sees X": (lambda: two_steps(Peeking(SIGMA, Mask())), "masks"),
    "neighbours": (lambda: two_steps(classifier=network(EveryOther())), "batches"),
    "dropout": (lambda: two_steps(classifier=network(Dropout())), "eval mode"),
    "back to training": (lambda: two_steps(classifier=network(BackToTraining())), "eval mode"),
    "never in eval mode": (lambda: two_steps(classifier=network(CannotEval())), "eval mode"),
    "a generator of its own": (lambda: two_steps(classifier=network(OwnGenerator())), "eval mode"),
    "late": (lambda: two_steps(classifier=network(Late(60))), "drift"),
}


@pytest.mark.parametrize(("make", "name"), DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_found_by_the_check_that_asks_for_it(defects, make, name):
    assert name in defects(make(), names={name})


def test_a_subclass_that_touches_the_image_before_the_noise_is_found(defects):
    class Brighter(SmoothedClassifier):
        def forward(self, x, generator):
            return super().forward(1.2 * x, generator)

    sound = two_steps()
    found = defects(Brighter(sound.mechanism, sound.combine, sound.classifier), names={"model check"})
    assert "own forward" in found["model check"]


def test_an_exact_model_of_the_library_has_no_bits_to_read_but_its_default_mode_would(findings, monkeypatch):
    model = two_steps()
    assert findings(model, names={"low bits"}, exact=True)["low bits"].passed
    monkeypatch.setattr(Gaussian, "use_exact", lambda step: setattr(step, "exact", False))
    monkeypatch.setattr(MaskedGaussian, "use_exact", lambda step: setattr(step, "exact", False))
    monkeypatch.setattr(noise_checks, "_steps_of_noise", noise_checks._exact_bits)
    assert findings(model, names={"low bits"})["low bits"].passed is False


class Larger(Gaussian):
    """A radius that is 4% too large."""

    def radius(self, p_plus, p_minus, *, norm, dim):
        return 1.04 * super().radius(p_plus, p_minus, norm=norm, dim=dim)


@pytest.mark.slow
def test_the_default_number_of_draws_sees_as_little_as_the_page_says(defects):
    """A miss has a probability of about 1e-3 at most: the radius lies 7.4 standard errors off, the level is at 4.4."""
    images = torch.rand(4, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    found = defects(smoothed(Scaled(0.001), classifier=Smooth()), images, draws=20_000, names={"noise"})
    assert "noise" in found
    ended = smoothed(Noise(lambda noise: noise.clamp(-4.9, 4.9)), classifier=Smooth())
    assert "noise" in defects(ended, images, draws=20_000, names={"noise"})
    assert "radius" in defects(smoothed(Larger(SIGMA)), draws=20_000, names={"radius"})


@pytest.mark.parametrize("images", [1, 4])
def test_votes_of_few_blocks_have_honest_p_values(images):
    """Of 3,000 samples of the fewest blocks; a count beyond its bound has probability 1e-6."""
    generator, p_values = np.random.default_rng(0), []
    for _ in range(3000):
        numbers = generator.standard_normal((images, LEAST_BLOCKS, 100))
        p_values.append(independence([table > np.median(table) for table in numbers]))
    for level in (1e-4, 0.01, 0.05):
        alarms = (np.array(p_values) <= level).sum(axis=0)
        assert alarms.max() <= binom.isf(1e-6, 3000, level), level


@pytest.mark.slow
def test_p_values_of_a_sound_model_are_as_rare_as_they_say(findings):
    """Each count exceeds its bound with probability 1e-6 at most."""
    seeds, level = 80, 0.05
    alarms = dict.fromkeys((check.name for check in CHECKS if check.by_chance), 0)
    for seed in range(seeds):
        for name, found in findings(two_steps(), draws=2000, seed=seed, names=set(alarms)).items():
            alarms[name] += found.p_value is not None and found.p_value <= level
    assert max(alarms.values()) <= binom.isf(1e-6, seeds, level), alarms
    assert sum(alarms.values()) > 0  # they are p-values


@pytest.mark.slow
def test_operating_points_of_a_sound_model_rarely_beat_the_guarantee(findings, monkeypatch):
    """At a level of .05 for a whole check, more than the bound with probability 1e-6."""
    monkeypatch.setattr(guarantee_checks, "LEVEL", 0.05)
    alarms = sum(
        findings(two_steps(), draws=2000, seed=seed, names={"operating points"})["operating points"].passed is False
        for seed in range(100)
    )
    assert alarms <= binom.isf(1e-6, 100, 0.05)
