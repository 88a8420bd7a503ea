import math

import pytest
import torch
from scipy.stats import binom, kstest, norm
from torch import nn

from ars.smoothing import Composition, Gaussian, MaskedGaussian, compose
from ars.smoothing.generalised_normal import generalised_normal_like
from ars.smoothing.mechanism import Rows, Tape, draw_like, normal_like, one_batch
from ars.theory import Ball


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def generators(*seeds):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


@pytest.mark.false_alarm(1e-7)
def test_noise_is_standard_normal_in_float32_whatever_the_image_is(seed):
    x = torch.zeros(50, 3, 16, 16, dtype=torch.float64)
    noise = normal_like(x, generator(seed))
    assert noise.dtype == torch.float32
    assert noise.shape == x.shape
    assert kstest(noise.flatten().numpy(), "norm").pvalue > 1e-7


@pytest.mark.false_alarm(2e-6)
@pytest.mark.parametrize("beyond", [3.0, 4.0, 4.4])
def test_noise_has_normal_tails(beyond, seed):
    """Of two million draws, as many lie beyond as should."""
    noise = normal_like(torch.zeros(40, 3, 128, 130), generator(seed)).abs()
    expected = binom(noise.numel(), 2 * norm.sf(beyond))
    assert expected.ppf(1e-6) <= int((noise > beyond).sum()) <= expected.isf(1e-6)
    assert expected.ppf(1e-6) > 0, "a missing tail is seen"


@pytest.mark.false_alarm(1e-6)
def test_no_two_images_of_a_batch_share_noise(seed):
    """The transform of each of 2,016 correlations is nearly normal of variance 1/189, and 6.5 is rare enough."""
    noise = normal_like(torch.zeros(64, 3, 8, 8), generator(seed)).flatten(1)
    correlation = torch.corrcoef(noise) - torch.eye(64)
    assert correlation.atanh().abs().max() < 6.5 / 189**0.5


LAWS = [normal_like, lambda x, generator: generalised_normal_like(x, 2.25, generator)]


@pytest.mark.parametrize("like", LAWS)
def test_each_generator_serves_an_equal_run_as_if_it_were_alone(like):
    together = like(torch.zeros(6, 3, 8, 8), generators(5, 6, 7))
    for place, seed in enumerate((5, 6, 7)):
        alone = like(torch.zeros(2, 3, 8, 8), torch.Generator().manual_seed(seed))
        assert torch.equal(together[2 * place : 2 * place + 2], alone)


@pytest.mark.parametrize("count", [0, 2, 4, 7])
def test_a_batch_that_cannot_be_shared_evenly_is_refused(count):
    with pytest.raises(ValueError, match="shared evenly"):
        normal_like(torch.zeros(5, 1, 2, 2), generators(*range(count)))


def test_noise_never_comes_from_the_global_state():
    torch.manual_seed(0)
    first = normal_like(torch.zeros(2, 1, 4, 4), generators(1, 2))
    torch.manual_seed(99)
    assert torch.equal(first, normal_like(torch.zeros(2, 1, 4, 4), generators(1, 2)))


def test_a_tape_plays_the_noise_of_its_generator_again_and_again():
    x = torch.zeros(2, 3, 4, 4)
    fresh = torch.Generator().manual_seed(3)
    expected = [normal_like(x, fresh), generalised_normal_like(x, 1.5, fresh)]
    tape = Tape(torch.Generator().manual_seed(3))
    for _ in range(3):
        tape = tape.rewound()
        assert torch.equal(normal_like(x, tape), expected[0])
        assert torch.equal(generalised_normal_like(x, 1.5, tape), expected[1])


def test_a_tape_serves_no_batch_of_another_size():
    tape = Tape(torch.Generator().manual_seed(3))
    normal_like(torch.zeros(1, 3, 4, 4), tape)
    with pytest.raises(ValueError, match="tape"):
        normal_like(torch.zeros(2, 3, 4, 4), tape.rewound())


@pytest.mark.parametrize("like", LAWS)
def test_parts_of_a_batch_get_the_noise_of_the_whole_step_after_step(like):
    whole = torch.Generator().manual_seed(3)
    expected = [like(torch.zeros(6, 3, 4, 4), whole) for _ in range(2)]
    for part in range(3):
        rows = Rows(torch.Generator().manual_seed(3), part, 3)
        for noise in expected:
            assert torch.equal(like(torch.zeros(2, 3, 4, 4), rows), noise[part::3])


GENERATORS = {
    "one": torch.Generator(),
    "several": [torch.Generator(), torch.Generator()],
    "of a larger batch": Rows(torch.Generator(), part=0, parts=2),
}


@pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize(
    "draw",
    [
        lambda run, one: torch.randn(run.shape[1:], generator=one),
        lambda run, one: torch.randn(1, *run.shape[1:], generator=one),
        lambda run, one: None,
    ],
    ids=["an image", "one draw", "nothing"],
)
def test_noise_is_not_spread_over_a_run(draw, generator):
    with pytest.raises(ValueError, match="noise must be drawn in the shape"):
        draw_like(torch.zeros(6, 1, 4, 4), generator, draw)


def test_releases_of_several_batches_are_those_of_one(images):
    parts = [
        compose(Gaussian(0.5), Gaussian(level)).release(images[at], one)
        for at, level, one in ((slice(0, 1), 0.6, generators(1)), (slice(1, 4), 0.7, generators(2, 3, 4)))
    ]
    for step, release in enumerate(one_batch(parts)):
        for field in ("value", "weight", "std"):
            rows = [getattr(part[step], field).expand(len(part[step].value), -1, -1, -1) for part in parts]
            assert torch.equal(getattr(release, field), torch.cat(rows))


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


@pytest.mark.false_alarm(1e-7)
def test_steps_draw_independent_noise(seed):
    x = torch.zeros(500, 3, 8, 8)
    first, second = compose(Gaussian(1.0), Gaussian(1.0)).release(x, generator(seed))
    correlation = float((first.value * second.value).mean())
    assert abs(correlation) < norm.isf(1e-8) / math.sqrt(x.numel())


def test_the_guarantee_is_that_of_one_step_with_the_total_noise(constant_mask):
    ball = Ball("linf", 192, 0.02)
    steps = Gaussian(0.5), MaskedGaussian(0.7, constant_mask(1.0)), Gaussian(1.1)
    total = 1 / math.sqrt(1 / 0.5**2 + 1 / 0.7**2 + 1 / 1.1**2)
    expected = 0.02 * math.sqrt(192) / total
    mu = compose(*steps).guarantee(ball).mu
    assert mu == pytest.approx(expected, rel=1e-13)
    assert mu >= expected * (1 - 1e-15)


@pytest.mark.parametrize("wrong", [0.5, [Gaussian(0.5)], nn.Identity(), Gaussian])
def test_what_is_no_step_is_refused(wrong):
    with pytest.raises(TypeError, match="steps"):
        compose(Gaussian(0.5), wrong)
    with pytest.raises(ValueError, match="at least one step"):
        Composition([])
