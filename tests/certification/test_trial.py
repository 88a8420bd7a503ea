"""What a trial sees: noise that draws share, and networks that share the batch behind certain answers."""

import pytest
import torch
from torch import nn

from ars import certify, cohen
from ars.certification.independence import check_independent
from ars.certification.trial import try_out
from ars.smoothing import Gaussian, Release, SmoothedClassifier, compose, draw_like, last

from .own_parts import Function, Noisy, plain

REFUSED = "answers otherwise to a noisy image alone than among others"


def each_its_own(x, generator, make):
    """Noise by hand: one tensor for each generator, as if each had one draw to make."""
    generators = [generator] if isinstance(generator, torch.Generator) else generator
    return torch.stack([make(x, one) for one in generators])


def in_pairs(x, generator):
    def draw(run, one):
        half = torch.randn((len(run) + 1) // 2, *run.shape[1:], generator=one)
        return torch.cat([half, half])[: len(run)]

    return draw_like(x, generator, draw)


def blue_shared(x, generator):
    noise = draw_like(x, generator, lambda run, one: run.normal_(generator=one))
    blue = each_its_own(x, generator, lambda x, one: torch.randn(x.shape[2:], generator=one))
    noise[:, 2] = blue.repeat_interleave(len(x) // len(blue), dim=0)
    return noise


def in_opposites(x, generator):
    def draw(run, one):
        half = torch.randn((len(run) + 1) // 2, *run.shape[1:], generator=one)
        return torch.cat([half, -half])[: len(run)]

    return draw_like(x, generator, draw)


def with_a_common_part(x, generator):
    def draw(run, one):
        return torch.randn(run.shape, generator=one) + torch.randn(1, *run.shape[1:], generator=one)

    return draw_like(x, generator, draw)


@pytest.mark.parametrize(("like", "how"), [(in_opposites, "opposite"), (with_a_common_part, "common")])
def test_noise_that_hangs_together_without_being_equal_is_refused(like, how):
    shared = SmoothedClassifier(compose(Noisy(like)), last, plain())
    with pytest.raises(ValueError, match=rf"step 0 of the mechanism gives the draws of one generator {how} noise"):
        try_out(shared, torch.rand(1, 3, 16, 16))


@pytest.mark.parametrize(
    "like",
    [
        lambda x, generator: each_its_own(x, generator, lambda x, one: torch.randn(x.shape[1:], generator=one)),
        in_pairs,
        blue_shared,
    ],
    ids=["all", "pairs", "a channel"],
)
def test_noise_that_the_draws_of_one_generator_share_is_refused(like):
    shared = SmoothedClassifier(compose(Gaussian(0.5), Noisy(like)), last, plain())
    with pytest.raises(ValueError, match=r"step 1 of the mechanism gives the draws of one generator the same noise"):
        try_out(shared, torch.rand(1, 3, 16, 16))


@pytest.mark.parametrize(
    "release",
    [
        lambda noisy: noisy.clamp(0, 1),
        lambda noisy: noisy.mean(dim=(1, 2, 3), keepdim=True).expand_as(noisy),
        lambda noisy: (noisy > 0.5).float(),
        lambda noisy: (255 * noisy).round() / 255,
        lambda noisy: (255 * noisy.mean(dim=(2, 3), keepdim=True)).round().expand_as(noisy) / 255,
        torch.zeros_like,
    ],
    ids=["clamped", "one number", "bits", "bytes", "few numbers", "nothing"],
)
def test_releases_that_agree_without_sharing_noise_pass(release):
    class Processed(Gaussian):
        def release(self, x, past, generator):
            plain = super().release(x, past, generator)
            return Release(release(plain.value), plain.weight, plain.std)

    for images in (torch.rand(1, 3, 16, 16), torch.zeros(1, 1, 1, 1), torch.rand(1, 3, 16, 16).round()):
        network = Function(lambda x: torch.stack([x.mean(dim=(1, 2, 3)), 1 - x.mean(dim=(1, 2, 3))], dim=1))
        try_out(SmoothedClassifier(compose(Processed(0.5)), last, network), images)


def test_a_step_must_release_each_image():
    class Half(Gaussian):
        def release(self, x, past, generator):
            whole = super().release(x, past, generator)
            return Release(whole.value[: (len(x) + 1) // 2], whole.weight, whole.std)

    mechanism = compose(Half(0.5), Gaussian(0.5))  # the classifier sees the second alone
    with pytest.raises(ValueError, match="step 0 of the mechanism released 4 values of 8 images"):
        try_out(SmoothedClassifier(mechanism, last, plain()), torch.rand(1, 3, 16, 16))


class OfScores(nn.Module):
    """Light or dark, from a score that the batch may share, as labels or as certainties."""

    def __init__(self, answer, own):
        super().__init__()
        self.answer, self.own = answer, own

    def forward(self, x):
        score = (x - 0.5).mean(dim=(1, 2, 3))
        score = self.own * score + (1 - self.own) * score.mean()
        return self.answer(torch.stack([-score, score], dim=1))


def as_labels(logits):
    return nn.functional.one_hot(logits.argmax(dim=1), 3)


def as_certainties(logits):
    return (1e3 * logits).softmax(dim=1)


@pytest.mark.parametrize("answer", [as_labels, as_certainties])
@pytest.mark.parametrize("rest", [[], [0.505], [0.3]], ids=["clear", "one unclear", "one of each"])
def test_answers_that_are_certain_do_not_hide_the_batch(answer, rest):
    images = torch.cat([torch.full((1, 3, 8, 8), level) for level in [1.0, 0.9, *rest]])
    for own in (0.8, 0.5, 0.2):
        with pytest.raises(ValueError, match=REFUSED):
            certify(cohen(OfScores(answer, own), sigma=0.5), images, seed=0)
    check_independent(cohen(OfScores(answer, 1.0), sigma=0.5), images)


@pytest.mark.parametrize("own", [0.8, 0.5, 0.2])
def test_labels_of_an_unclear_image_do_not_hide_the_batch(own):
    for level in (0.47, 0.49, 0.5, 0.505, 0.52):
        with pytest.raises(ValueError, match=REFUSED):
            try_out(cohen(OfScores(as_labels, own), sigma=0.5), torch.full((1, 3, 8, 8), level))


def test_a_statistic_that_only_dark_companions_move_is_seen():
    def forward(x):
        score = (x - 0.5).mean(dim=(1, 2, 3))
        score = score + score.clamp(max=-0.2).mean() + 0.2
        return as_labels(torch.stack([-score, score], dim=1))

    with pytest.raises(ValueError, match=REFUSED):
        try_out(cohen(Function(forward), sigma=0.5), torch.full((1, 3, 8, 8), 0.5))


def test_a_decision_for_the_whole_batch_is_seen():
    def forward(x):
        score = 30 * (x - 0.5).mean(dim=(1, 2, 3))
        cheap = bool((score.abs() > 1).all())
        return torch.stack([-score, score], dim=1) * (1.0 if cheap else -1.0)

    with pytest.raises(ValueError, match=REFUSED):
        try_out(cohen(Function(forward), sigma=0.5), torch.full((1, 3, 8, 8), 0.8))


def test_images_that_nobody_gave_need_not_suit_the_model():
    def bright(x):
        if (x.mean(dim=(1, 2, 3)) < 0.7).any():
            raise IndexError("no pixel is bright")
        return nn.functional.one_hot((x.mean(dim=(1, 2, 3)) > 0.5).long(), 3)

    try_out(cohen(Function(bright), sigma=0.1), torch.full((2, 3, 8, 8), 0.9))


def test_memory_that_is_short_on_a_cpu_is_not_laid_to_the_images():
    def full(x):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(RuntimeError, match="can't allocate"):
        try_out(cohen(Function(full), sigma=0.5), torch.rand(2, 3, 8, 8))


def test_answers_that_never_change_are_asked_for_in_a_few_other_places_only():
    calls = []

    def constant(x):
        calls.append(len(x))
        return torch.tensor([1.0, 0.0]).expand(len(x), 2)

    check_independent(cohen(Function(constant), sigma=0.5), torch.rand(20, 3, 8, 8))
    assert sum(calls) == 16 + 3 * 16 + 8 * 8
