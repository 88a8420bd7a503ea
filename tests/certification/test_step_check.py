"""Steps that do not keep their word are refused: shared noise, leaks, other noise or a better guarantee than stated."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from ars import adaptive
from ars.certification import step_check
from ars.certification.model_check import check_model
from ars.certification.step_check import Residuals, check_steps, generators
from ars.models import UNet
from ars.smoothing import (
    Gaussian,
    GeneralisedNormal,
    MaskedGaussian,
    Release,
    SmoothedClassifier,
    Step,
    compose,
    draw_like,
    last,
    normal_like,
)
from ars.smoothing.input_dependent import LocalGaussian
from ars.theory import repeat
from ars.theory.tradeoff import Gaussian as GaussianTradeOff
from ars.theory.tradeoff import Laplace as LaplaceTradeOff

from .user_parts import Function, Noisy, plain


@pytest.fixture
def image():
    return torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def smoothed(*steps):
    return SmoothedClassifier(compose(*steps), last, plain()).eval()


def mask():
    return Function(lambda seen: (2 * seen.mean(dim=1, keepdim=True)).sigmoid())


def each_its_own(x, generator, make):
    """Noise by hand: one tensor for each generator, as if each had one draw to make."""
    generators = [generator] if isinstance(generator, torch.Generator) else generator
    return torch.stack([make(x, one) for one in generators])


def for_all(x, generator):
    return each_its_own(x, generator, lambda x, one: torch.randn(x.shape[1:], generator=one))


def in_halves_of_a_run(other):
    def draw(run, generator):
        half = torch.randn((len(run) + 1) // 2, *run.shape[1:], generator=generator)
        return torch.cat([half, other * half])[: len(run)]

    return lambda x, generator: draw_like(x, generator, draw)


def blue_shared(x, generator):
    noise = draw_like(x, generator, lambda run, one: run.normal_(generator=one))
    blue = each_its_own(x, generator, lambda x, one: torch.randn(x.shape[2:], generator=one))
    noise[:, 2] = blue.repeat_interleave(len(x) // len(blue), dim=0)
    return noise


def with_a_common_part(x, generator):
    def draw(run, one):
        return torch.randn(run.shape, generator=one) + torch.randn(1, *run.shape[1:], generator=one)

    return draw_like(x, generator, draw)


@pytest.mark.parametrize(
    ("like", "how"),
    [
        (for_all, "the same"),
        (in_halves_of_a_run(1), "the same"),
        (blue_shared, "the same"),
        (in_halves_of_a_run(-1), "opposite"),
        (with_a_common_part, "common"),
    ],
    ids=["all", "pairs", "a channel", "opposites", "common part"],
)
def test_noise_that_the_draws_of_one_generator_share_is_refused(image, like, how):
    with pytest.raises(ValueError, match=f"step 1 .* {how} noise"):
        check_steps(compose(Gaussian(0.5), Noisy(like)), image, "linf")


def test_noise_that_one_generator_of_several_drew_is_told_how_to_be_drawn(image):
    naive = Noisy(lambda x, generator: torch.empty_like(x).normal_(generator=generator[0]))
    with pytest.raises(ValueError, match=r"ars\.draw_like"):
        check_model(smoothed(naive), image)
    check_model(smoothed(Noisy(normal_like)), image)
    check_steps(compose(Noisy(normal_like)), image, "linf")


def test_a_step_must_release_each_image(image):
    class Half(Gaussian):
        def release(self, x, past, generator):
            whole = super().release(x, past, generator)
            return Release(whole.value[: (len(x) + 1) // 2], whole.weight, whole.std)

    for mechanism in (compose(Half(0.5)), compose(Half(0.5), Gaussian(0.5))):
        with pytest.raises(ValueError, match="each image once, got 4 of 8"):
            check_model(SmoothedClassifier(mechanism, last, plain()).eval(), image)


class Leaking(Gaussian):
    """States a weight or a deviation that is computed from the image itself."""

    def __init__(self, weight, std):
        super().__init__(0.5)
        self.weight, self.std = weight, std

    def release(self, x, past, generator):
        plain = super().release(x, past, generator)
        return Release(plain.value, self.weight(x, past) * plain.weight, self.std(x, past) * plain.std)


def one(x, past):
    return torch.ones(())


LEAKS = {
    "weight": (lambda x, past: x.mean(dim=1, keepdim=True), one),
    "deviation": (one, lambda x, past: 1 + x.std(dim=(1, 2, 3), keepdim=True)),
    "brightest pixel": (one, lambda x, past: 1 + x.amax(dim=(1, 2, 3), keepdim=True)),
    "the image beside its past": (lambda x, past: (past[0].value - x).sigmoid()[:, :1], one),
}


@pytest.mark.parametrize(("weight", "std"), LEAKS.values(), ids=LEAKS)
def test_a_step_whose_weight_or_deviation_tells_of_the_image_is_refused(weight, std):
    for image in (torch.rand(1, 3, 16, 16), torch.full((1, 3, 16, 16), 0.5)):
        mechanism = compose(Gaussian(0.5), Leaking(weight, std))
        with pytest.raises(ValueError, match=r"step 1 .* weight or a deviation"):
            check_steps(mechanism, image, "linf")


def of_the_past(x, past):
    return past[0].value.sigmoid()[:, :1]


class Weighted(Gaussian):
    """A weight that is computed from the first release, and no more noise for it than its budget allows."""

    def release(self, x, past, generator):
        weight, std = of_the_past(x, past), 0.5 * torch.ones(1, 1, 1, 1)
        return Release(weight * x + std * normal_like(x, generator), weight, std)


class LaplaceNoise(Step):
    """Laplace noise of deviation 1."""

    sigma = 1.0

    def release(self, x, past, generator):
        def laplace(run, one):
            uniform = torch.empty_like(run).uniform_(-1 + 1e-6, 1 - 1e-6, generator=one)
            return -uniform.sign() * (1 - uniform.abs()).log() / math.sqrt(2)

        one = torch.ones(1, 1, 1, 1)
        return Release(x + draw_like(x, generator, laplace), one, one)

    def guarantee(self, ball):
        return repeat(LaplaceTradeOff(ball.radius * math.sqrt(2)), ball.dim)


class LaplaceAsGaussian(LaplaceNoise):
    """Its normal guarantee is proved in docs/own-method.md; heavier tails than normal ones are no defect."""

    def guarantee(self, ball):
        return GaussianTradeOff(ball.l2_radius * math.sqrt(math.pi))


class NormalAndUniform(LaplaceNoise):
    """Lighter tails than normal noise of deviation 1, with the guarantee of the normal part alone."""

    def release(self, x, past, generator):
        one, uniform = (
            torch.ones(1, 1, 1, 1),
            draw_like(x, generator, lambda run, one: run.uniform_(-1, 1, generator=one)),
        )
        return Release(x + 0.5 * normal_like(x, generator) + 1.5 * uniform, one, one)

    def guarantee(self, ball):
        return GaussianTradeOff(ball.l2_radius / 0.5)


class Clamped(LaplaceNoise):
    """Normal noise that ends at some deviations, with a Gaussian guarantee, but not of a type that we know."""

    def release(self, x, past, generator):
        one = torch.ones(1, 1, 1, 1)
        return Release(x + normal_like(x, generator).clamp(-4, 4), one, one)

    def guarantee(self, ball):
        return GaussianTradeOff(ball.l2_radius)


def test_noise_that_ends_has_no_gaussian_guarantee(image):
    with pytest.raises(ValueError, match="another law"):
        check_steps(compose(Clamped()), image, "linf")


SOUND = {
    "one step": lambda: compose(Gaussian(0.5)),
    "least noise": lambda: compose(Gaussian(1e-4)),
    "two steps": lambda: compose(Gaussian(0.7), MaskedGaussian(0.7, mask())),
    "three steps": lambda: compose(Gaussian(0.9), MaskedGaussian(0.9, mask()), MaskedGaussian(0.7, mask())),
    "exact": lambda: compose(Gaussian(0.7, exact=True), MaskedGaussian(0.7, mask(), exact=True)),
    "a mask that is nearly 0": lambda: compose(
        Gaussian(0.7), MaskedGaussian(0.7, Function(lambda m: 1e-5 * m.sigmoid()))
    ),
    "weights of the past": lambda: compose(Gaussian(0.5), Weighted(0.5)),
    "learned split": lambda: adaptive(plain(), UNet(4), sigma=1.0, share="learned").eval().mechanism,
    "light tails": lambda: compose(GeneralisedNormal(0.5, 4.0)),
    "heavy tails": lambda: compose(GeneralisedNormal(0.5, 1.0)),
    "Laplace": lambda: compose(LaplaceNoise()),
    "Laplace, with a normal guarantee": lambda: compose(LaplaceAsGaussian()),
    "normal and uniform noise": lambda: compose(NormalAndUniform()),
    "noise of its image": lambda: compose(LocalGaussian(0.5, 0.01)),
}


@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 1, 1), (1, 2, 3), (3, 8, 24), (3, 64, 64)], ids=str)
def test_steps_that_keep_their_word_pass(make, shape):
    torch.manual_seed(0)
    image, mechanism = torch.rand(1, *shape), make()
    if isinstance(mechanism.steps[-1], MaskedGaussian) and shape[1] < 16 and isinstance(mechanism.steps[-1].mask, UNet):
        pytest.skip("a U-Net needs 16 pixels")
    check_steps(mechanism, image, "linf")
    if all(type(step) is Gaussian for step in mechanism.steps):
        check_steps(mechanism, image, "l2")


def one_column(seen):
    """A mask that is 0 but for one column."""
    return (torch.arange(seen.shape[3]) == 0).float().expand(len(seen), 1, *seen.shape[2:])


WHOLE_UNITS = {
    "least noise": lambda: Gaussian(1e-4, exact=True),
    "little noise": lambda: Gaussian(1e-3, exact=True),
    "small mask": lambda: MaskedGaussian(0.1, Function(one_column), exact=True),
    "small mask, little noise": lambda: MaskedGaussian(0.003, Function(one_column), exact=True),
    "noise below a unit": lambda: MaskedGaussian(1e-3, Function(lambda seen: 1e-3 * one_column(seen)), exact=True),
}


@pytest.mark.parametrize("level", [0.0, 0.5001, 1.0])
@pytest.mark.parametrize("make", WHOLE_UNITS.values(), ids=WHOLE_UNITS)
def test_noise_in_whole_units_is_as_stated(make, level):
    """A black image puts many releases on an edge between counts; a grey one rounds all its pixels the same way."""
    check_steps(compose(make()), torch.full((1, 3, 64, 64), level), "linf")


def test_noise_of_one_size_is_no_normal_noise():
    """Its fourth moment is the square of its variance."""

    class Signs(Clamped):
        def release(self, x, past, generator):
            one = torch.ones(1, 1, 1, 1)
            return Release(x + normal_like(x, generator).sign(), one, one)

    with pytest.raises(ValueError, match="another law"):
        check_steps(compose(Signs()), torch.zeros(1, 3, 16, 16), "linf")


def test_too_little_noise_of_a_step_of_another_class_is_refused(image):
    """More of it, or a bias, takes nothing from a guarantee, and is not looked for."""

    class Own(Clamped):
        def release(self, x, past, generator):
            one = torch.ones(1, 1, 1, 1)
            return Release(x + 0.98 * normal_like(x, generator), one, one)

    with pytest.raises(ValueError, match="other noise"):
        check_steps(compose(Own()), image, "linf")


def changed(change, base=Gaussian):
    """A step whose standard normal noise is changed; it states what the sound one does."""

    class Changed(base):
        def release(self, x, past, generator):
            good = super().release(x, past, generator)
            return Release(
                good.weight * x + good.std * change((good.value - good.weight * x) / good.std), good.weight, good.std
            )

    return Changed


def without(index, factor):
    def change(noise):
        noise = noise.clone()
        noise[index] *= factor
        return noise

    return change


BLUE = (slice(None), 2)
OTHER_NOISE = {
    "none": torch.zeros_like,
    "a quarter": lambda noise: noise / 4,
    "2% less": lambda noise: 0.98 * noise,
    "2% more": lambda noise: 1.02 * noise,
    "none in one coordinate": without((slice(None), 2, 3, 4), 0.0),
    "half in one coordinate": without((slice(None), 2, 3, 4), 0.5),
    "one noise for all channels": lambda noise: noise[:, :1].expand_as(noise),
    "one noise for pairs of pixels": lambda noise: noise[..., ::2].repeat_interleave(2, dim=3),
    "smooth": lambda noise: (noise + noise.roll(1, dims=3)) / math.sqrt(2),
    "without its mean": lambda noise: noise - noise.mean(dim=(1, 2, 3), keepdim=True),
    "clamped at 4 deviations": lambda noise: noise.clamp(-4, 4),
    "clamped at 3 deviations": lambda noise: noise.clamp(-3, 3),
    "signs": lambda noise: noise.sign(),
    "uniform": lambda noise: math.sqrt(3) * torch.erf(noise / math.sqrt(2)),
    "a bias": lambda noise: noise + 0.01,
    "a bias in one coordinate": lambda noise: noise + (torch.arange(noise[0].numel()) == 5).view(noise[0].shape) / 2,
    "on a grid": lambda noise: (2 * noise).round() / 2,
}


@pytest.mark.parametrize("change", OTHER_NOISE.values(), ids=OTHER_NOISE)
@pytest.mark.parametrize("base", [Gaussian, MaskedGaussian])
def test_other_noise_than_stated_is_refused(image, change, base):
    step = changed(change, base)(0.5, *([mask()] if base is MaskedGaussian else []))
    with pytest.raises(ValueError, match=r"step 1 of the mechanism"):
        check_steps(compose(Gaussian(0.5), step), image, "linf")


@pytest.mark.parametrize(
    "release",
    [
        lambda noisy: noisy.clamp(0, 1),
        lambda noisy: noisy.mean(dim=(1, 2, 3), keepdim=True).expand_as(noisy),
        lambda noisy: (noisy > 0.5).float(),
        lambda noisy: (255 * noisy).round() / 255,
        torch.zeros_like,
    ],
    ids=["clamped", "one number", "bits", "bytes", "nothing"],
)
def test_what_is_done_to_a_release_belongs_into_combine(image, release):
    class Processed(Gaussian):
        def release(self, x, past, generator):
            good = super().release(x, past, generator)
            return Release(release(good.value), good.weight, good.std)

    with pytest.raises(ValueError, match="in combine"):
        check_steps(compose(Processed(0.01)), image, "linf")
    check_model(
        SmoothedClassifier(compose(Gaussian(0.01)), lambda releases: release(releases[-1].value), plain()).eval(), image
    )


class Squared(MaskedGaussian):
    """w^2 X instead of w X."""

    def release(self, x, past, generator):
        good = super().release(x, past, generator)
        return Release(good.value + good.weight * (good.weight - 1) * x, good.weight, good.std)


class Brighter(Gaussian):
    """Touches X before the noise."""

    def release(self, x, past, generator):
        return super().release(1.2 * x, past, generator)


@pytest.mark.parametrize("step", [Squared(0.5, mask()), Brighter(0.5)], ids=["w^2 X", "1.2 X"])
def test_another_image_than_stated_is_refused(image, step):
    with pytest.raises(ValueError, match=r"step 1 .* weight \* X"):
        check_steps(compose(Gaussian(0.5), step), image, "linf")


class OwnTradeOff:
    """G_mu by another name."""

    def __init__(self, mu):
        self.inner = GaussianTradeOff(mu)

    def __call__(self, alpha, /):
        return self.inner(alpha)


def promising(base, mu):
    class Promising(base):
        def guarantee(self, ball):
            return mu(ball, self.sigma)

    return Promising


def by_pixels(ball, sigma):
    return GaussianTradeOff(math.sqrt(ball.dim / 3) * ball.radius / sigma)


def by_one_percent(ball, sigma):
    return GaussianTradeOff(0.99 * ball.l2_radius / sigma)


def by_a_name_of_its_own(ball, sigma):
    return OwnTradeOff(0.95 * ball.l2_radius / sigma)


@pytest.mark.parametrize("base", [Gaussian, MaskedGaussian])
@pytest.mark.parametrize("mu", [by_pixels, by_one_percent, by_a_name_of_its_own])
def test_a_guarantee_that_promises_more_than_the_noise_gives_is_refused(image, base, mu):
    step = promising(base, mu)(0.5, *([mask()] if base is MaskedGaussian else []))
    with pytest.raises(ValueError, match=r"step 1 .* guarantees more"):
        check_steps(compose(Gaussian(0.5), step), image, "linf")


def test_a_masked_step_that_claims_an_l2_radius_is_refused(image):
    """All of e may sit where the mask is 1."""
    step = promising(MaskedGaussian, lambda ball, sigma: GaussianTradeOff(ball.radius / sigma))(0.5, mask())
    with pytest.raises(ValueError, match=r"step 1 .* guarantees more .* l2"):
        check_steps(compose(Gaussian(0.5), step), image, "l2")


def test_noise_scaled_by_the_norm_over_one_channel_is_refused(image):
    class OneChannel(MaskedGaussian):
        def release(self, x, past, generator):
            good = super().release(x, past, generator)
            std = good.std / math.sqrt(3)
            return Release(good.weight * x + (good.value - good.weight * x) / math.sqrt(3), good.weight, std)

    with pytest.raises(ValueError, match=r"step 1 .* guarantees more"):
        check_steps(compose(Gaussian(0.5), OneChannel(0.5, mask())), image, "linf")


@pytest.fixture
def check(monkeypatch, seed):
    """The check of a mechanism on an image, with other draws each time: whether it is refused."""
    calls = iter(range(seed, seed + 2**40, 1000))

    def refused(mechanism, image):
        first = next(calls)
        monkeypatch.setattr(
            step_check, "generators", lambda images, seeds: generators(images, [first + one for one in seeds])
        )
        try:
            check_steps(mechanism, image, "linf")
        except ValueError:
            return True
        return False

    return refused


SOUND_ANYWHERE = {
    "Gaussian": lambda: Gaussian(0.5),
    "much noise": lambda: Gaussian(10.0),
    "little noise": lambda: Gaussian(1e-3),
    "mask": lambda: MaskedGaussian(0.5, mask()),
    "mask with zeros": lambda: MaskedGaussian(0.5, Function(one_column)),
    "exact": lambda: Gaussian(0.5, exact=True),
    "exact, little noise": lambda: Gaussian(1e-3, exact=True),
    "exact mask with zeros": lambda: MaskedGaussian(0.1, Function(one_column), exact=True),
    "generalised normal, beta 1": lambda: GeneralisedNormal(0.5, 1.0),
    "generalised normal, beta 1.5": lambda: GeneralisedNormal(0.5, 1.5),
    "generalised normal, beta 5": lambda: GeneralisedNormal(0.5, 5.0),
    "noise of its image": lambda: LocalGaussian(0.5, 0.01),
    "Laplace, with a normal guarantee": LaplaceAsGaussian,
    "normal and uniform noise": NormalAndUniform,
}


@pytest.mark.slow
@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 3), (3, 8, 6)], ids=str)
@pytest.mark.parametrize("make", SOUND_ANYWHERE.values(), ids=SOUND_ANYWHERE)
def test_a_sound_step_is_refused_as_rarely_as_stated(monkeypatch, check, make, shape):
    """At FALSE_ALARM = 1/100, each of three random parts refuses at most 1 in 100, whatever the image."""
    monkeypatch.setattr(step_check, "FALSE_ALARM", 0.01)
    images = [torch.zeros(1, *shape), torch.ones(1, *shape), torch.rand(1, *shape), torch.rand(1, *shape)]
    refused = sum(check(compose(make()), images[number % len(images)]) for number in range(200))
    assert refused <= binom.isf(1e-7, 200, 0.03)


@pytest.mark.slow
@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 2), (1, 2, 4), (3, 4, 5)], ids=str)
@pytest.mark.parametrize("make", [lambda: Gaussian(0.5), LaplaceNoise, lambda: Gaussian(1.5e-4, exact=True)])
def test_independent_noise_on_few_pixels_is_not_said_to_be_shared(monkeypatch, check, make, shape):
    """If q is refused after 4 attempts in a row, q^10 is after 40, below FALSE_ALARM where q is below .158."""
    monkeypatch.setattr(step_check, "TIMES", 1)
    monkeypatch.setattr(step_check, "_check_noise", lambda *args: None)
    monkeypatch.setattr(step_check, "check_leaks", lambda *args: None)
    mechanism, image = compose(make()), torch.zeros(1, *shape)
    assert sum(check(mechanism, image) for _ in range(1000)) <= 158


@pytest.mark.false_alarm(1e-6)
def test_sound_noise_is_refused_as_rarely_as_stated(monkeypatch, seed):
    """At FALSE_ALARM = 1/50 each of both random parts refuses at most about 1 in 50 of 1,000 samples."""
    monkeypatch.setattr(step_check, "FALSE_ALARM", 0.02)
    generator, refused = torch.Generator().manual_seed(seed), np.zeros(2)
    for _ in range(1000):
        residuals, one = Residuals("linf", False), torch.ones(1, 1, 1, 1)
        residuals.add(Release(torch.randn(100, 3, 4, 4, generator=generator), one, one), torch.zeros(1, 3, 4, 4))
        refused += [not residuals.normal(), residuals.p_unit(strict=True) < 0.02]
    assert (refused <= binom.isf(1e-7, 1000, 0.02)).all()
    assert refused.min() > 0  # it is a test
