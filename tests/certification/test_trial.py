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


def fine(x):
    """Logits of four pixels, to the last bit the same wherever an image is asked about; they move little."""
    return 10 + 0.01 * x.flatten(1)[:, :4]


def other_kernels(x, logits):
    """Alone an image is answered by other kernels, which round as bf16 does."""
    return logits.bfloat16().float() if len(x) == 1 else logits


def steep(x):
    """Certainties that hang on the last digits of logits, in which kernels differ."""
    logits = fine(x) + 0.012 * torch.tensor([1.0, 0.0, 0.0, 0.0])
    rounded = logits * (1 + 1e-6 * torch.tensor([1.0, -1.0, 1.0, -1.0])) if len(x) == 1 else logits
    return (3e3 * rounded).softmax(dim=1)


@pytest.mark.parametrize("network", [lambda x: other_kernels(x, fine(x)), steep], ids=["bf16", "steep"])
def test_other_kernels_for_other_sizes_of_batch_are_no_fault(network):
    calls = []
    model = cohen(Function(lambda x: calls.append(len(x)) or network(x)), sigma=0.5)
    for seed in range(20):
        torch.manual_seed(seed)
        try_out(model, torch.rand(2, 3, 8, 8))
    assert sum(calls) > 20 * (16 + 3 * 16) + 600  # some were suspected


def test_networks_in_bf16_pass_whatever_their_weights_are():
    for seed in range(20):
        torch.manual_seed(seed)
        parts = nn.Sequential(nn.Flatten(), nn.Linear(192, 256), nn.ReLU(), nn.Linear(256, 10)).bfloat16()
        network = Function(lambda x, parts=parts: parts(x.bfloat16()).float())
        try_out(cohen(network, sigma=0.12), torch.rand(2, 3, 8, 8))


class Faulty(nn.Module):
    """A fault far smaller than what other kernels round, which would hide it."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.kept = fault, {}

    def forward(self, x):
        return other_kernels(x, self.fault(self.kept, x, fine(x)))


def in_groups(size):
    return lambda kept, x, logits: torch.cat([some - 0.2 * some.mean(dim=0) for some in logits.split(size)])


def every_other_one(kept, x, logits):
    return torch.cat([logits[place::2] - 0.2 * logits[place::2].mean(dim=0) for place in range(min(2, len(x)))])


def by_place(kept, x, logits):
    return logits + 1e-3 * torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))


def with_a_first_call(kept, x, logits):
    shift = kept.get("shift", 0.0)
    kept["shift"] = torch.tensor([1e-3, 0.0, 0.0, 0.0])
    return logits + shift


def with_the_call_before(kept, x, logits):
    before, kept["before"] = kept.get("before", 0.0), 0.2 * logits.mean(dim=0)
    return logits - before


def slowly_remembering(kept, x, logits):
    kept["mean"] = 0.999 * kept.get("mean", 0.0) + 0.001 * logits.mean(dim=0)
    return logits - kept["mean"] * torch.tensor([1.0, 0.0, 0.0, 0.0])


FAULTS = {
    "pairs": in_groups(2),
    "groups of four": in_groups(4),
    "groups of eight": in_groups(8),
    "the whole batch": in_groups(1000),
    "every other one": every_other_one,
    "largest of the batch": lambda kept, x, logits: logits - 0.2 * logits.amax(dim=0),
    "place": by_place,
    "first call": with_a_first_call,
    "call before": with_the_call_before,
    "slow memory": slowly_remembering,
    "size of the batch": lambda kept, x, logits: logits * torch.linspace(1, 1 + len(x), 4),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_faults_do_not_hide_behind_what_other_kernels_round(fault):
    for seed in range(5):
        torch.manual_seed(seed)
        with pytest.raises(ValueError, match=REFUSED):
            try_out(cohen(Faulty(fault), sigma=0.5), torch.rand(2, 3, 8, 8))


def test_a_model_that_takes_no_plain_images_is_not_cleared():
    def bright(x):
        if (x.mean(dim=(1, 2, 3)) < 0.7).any() or (x.mean(dim=(1, 2, 3)) > 0.97).any():
            raise IndexError("too dark or too bright")
        return other_kernels(x, fine(x))

    with pytest.raises(ValueError, match=REFUSED):
        try_out(cohen(Function(bright), sigma=0.1), torch.full((2, 3, 8, 8), 0.9))


def test_answers_that_are_written_into_the_same_memory_are_told_apart():
    memory = torch.empty(16, 4)
    try_out(cohen(Function(lambda x: memory[: len(x)].copy_(fine(x))), sigma=0.5), torch.rand(2, 3, 8, 8))
    shared = Function(lambda x: memory[: len(x)].copy_(fine(x) - 0.2 * fine(x).mean(dim=0)))
    with pytest.raises(ValueError, match=REFUSED):
        try_out(cohen(shared, sigma=0.5), torch.rand(2, 3, 8, 8))
