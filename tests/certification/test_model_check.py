"""Draws that depend on each other are refused, wherever the dependence hides; rounding is not."""

import pytest
import torch
from torch import nn

from ars import adaptive, cohen
from ars.certification.certifier import Certifier
from ars.certification.model_check import check_counting, check_model
from ars.certification.settings import CertifySettings
from ars.certification.votes import VoteCounter
from ars.models import Normalize, UNet, cifar_resnet
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last

from .user_parts import Function, Noisy, plain

TIED = "alone and among others"


def check(model, images=None):
    check_model(model.eval(), torch.rand(3, 3, 16, 16) if images is None else images)


def check_counted(model, images, precision="float32", batch_size=1000):
    check_counting(VoteCounter(model.eval(), precision, batch_size=batch_size), images)


def in_halves(x):
    """How much lighter the left half of each image is than the right one."""
    half = x.shape[-1] // 2
    return x[..., :half].mean(dim=(1, 2, 3)) - x[..., half:].mean(dim=(1, 2, 3))


class OverTheBatch(nn.Module):
    """A difference of two halves, treated with statistics of the batch, as the first two of some classes."""

    def __init__(self, treat, others=(), dtype=torch.float32, shared=0.0):
        super().__init__()
        self.treat, self.others, self.dtype, self.shared = treat, others, dtype, shared

    def forward(self, x):
        difference = self.treat(in_halves(x))
        logits = torch.stack([difference, -difference], dim=1) + self.shared * x.mean(dim=(1, 2, 3)).unsqueeze(1)
        return torch.cat([logits, torch.tensor(self.others).expand(len(x), -1)], dim=1).to(self.dtype)


def centred(difference):
    return difference - difference.mean()


def standardised(difference):
    return centred(difference) / (centred(difference).square().sum() / (len(difference) - 1)).sqrt()


def mask_of_the_batch(seen):
    return (seen - seen.mean(dim=0)).abs().mean(dim=1, keepdim=True).clamp(0, 1)


def mean_of_the_batch(releases):
    return releases[-1].value + 0.3 * releases[-1].value.mean(dim=0)


def attention():
    return nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(256, 2), nn.Flatten(), nn.Linear(768, 4))


LOOKING_AT_THE_BATCH = {
    "classifier": lambda: cohen(OverTheBatch(centred, others=(-100.0, -100.0)), sigma=0.5),
    "mask": lambda: adaptive(plain(), Function(mask_of_the_batch), sigma=0.5),
    "combine": lambda: SmoothedClassifier(compose(Gaussian(0.5)), mean_of_the_batch, plain()),
    "attention": lambda: cohen(attention(), sigma=0.5),
    "standardised: alone it is not a number": lambda: cohen(OverTheBatch(standardised), sigma=0.5),
    "a class ruled out": lambda: cohen(OverTheBatch(centred, others=(-torch.inf,)), sigma=0.5),
    "bf16": lambda: cohen(OverTheBatch(centred, others=(-20.0,), dtype=torch.bfloat16), sigma=0.5),
    "a spread that all classes share": lambda: cohen(OverTheBatch(centred, shared=1e3), sigma=0.5),
}


@pytest.mark.parametrize("make", LOOKING_AT_THE_BATCH.values(), ids=LOOKING_AT_THE_BATCH)
def test_what_looks_at_the_batch_is_refused(make):
    torch.manual_seed(0)
    images = torch.rand(3, 3, 16, 16)
    images[..., :8] = (images[..., :8] + 0.2).clamp(max=1)
    for given in (images, images[:1]):
        with pytest.raises(ValueError, match=TIED):
            check(make(), given)


OF_EACH_IMAGE_ALONE = {
    "halves": lambda: cohen(OverTheBatch(lambda d: d, others=(-torch.inf,)), sigma=0.5),
    "shared": lambda: cohen(OverTheBatch(lambda d: d, shared=1e3), sigma=0.5),
    "steep": lambda: cohen(nn.Sequential(Normalize([0.5] * 3, [0.01] * 3), cifar_resnet(20, 10)), sigma=0.12),
    "bf16": lambda: cohen(nn.Sequential(Function(lambda x: x.bfloat16()), cifar_resnet(20, 10).bfloat16()), sigma=0.5),
    "adaptive": lambda: adaptive(plain(), UNet(4), sigma=1.0),
    "learned split": lambda: adaptive(plain(), UNet(4), sigma=1.0, share="learned"),
    "constant": lambda: cohen(Function(lambda x: torch.zeros(len(x), 3)), sigma=0.5),
    "large": lambda: cohen(Function(lambda x: torch.tensor([1e6, 0.0]) + x.flatten(1)[:, :2]), sigma=0.5),
    "labels": lambda: cohen(
        Function(lambda x: nn.functional.one_hot((x.mean(dim=(1, 2, 3)) > 0.5).long(), 3)), sigma=0.5
    ),
}


@pytest.mark.parametrize("make", OF_EACH_IMAGE_ALONE.values(), ids=OF_EACH_IMAGE_ALONE)
def test_what_takes_each_image_by_itself_passes(make):
    torch.manual_seed(1)
    images, model = torch.rand(3, 3, 16, 16), make()
    check(model, images)
    check_counted(model, images)


@pytest.mark.parametrize("treat", [centred, lambda d: d - d.median()], ids=["centred", "median"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_looks_at_large_batches_alone_is_refused_where_votes_are_counted_in_such(treat, precision):
    torch.manual_seed(0)
    images = torch.rand(3, 3, 16, 16)
    images[..., :8] = (images[..., :8] + 0.2).clamp(max=1)
    model = cohen(OverTheBatch(lambda d: treat(d) if len(d) >= 1000 else d), sigma=0.5)
    check(model, images)
    check_counted(model, images, precision, batch_size=900)
    with pytest.raises(ValueError, match=TIED):
        check_counted(model, images, precision, batch_size=1000)


def test_a_coin_that_a_large_batch_shares_is_seen_where_no_other_images_suit():
    def network(x):
        if (x.mean(dim=(1, 2, 3)) < 0.5).any():
            raise IndexError("too dark")
        coin = 1.0 if len(x) < 1000 else (1e4 * x.sum()).sin()
        return coin * (x.flatten(1)[:, :2] - 0.9)

    model, images = cohen(Function(network), sigma=0.1), torch.full((1, 3, 8, 8), 0.9)
    check(model, images)
    with pytest.raises(ValueError, match=TIED):
        check_counted(model, images)


def test_counting_is_checked_at_its_own_size_or_the_largest_that_fits():
    sizes = []

    def network(x):
        sizes.append(len(x))
        if len(x) > 500:
            raise torch.OutOfMemoryError("no memory")
        return x.flatten(1)[:, :2]

    for batch_size in (300, 700):
        check_counted(cohen(Function(network), sigma=0.5), torch.rand(1, 3, 16, 16), batch_size=batch_size)
    assert sizes == [300] * 2 + [700] + [300] * 2


def test_randomness_of_its_own_is_refused_however_rarely_it_shows():
    coin = Function(lambda x: x.flatten(1)[:, :2] + (torch.rand(()) < 1e-9))
    dropout = nn.Sequential(Function(lambda x: nn.functional.dropout(x)), plain())
    step = Noisy(lambda x, generator: torch.randn_like(x))
    for model in (
        cohen(coin, sigma=0.5),
        cohen(dropout, sigma=0.5),
        SmoothedClassifier(compose(step), last, plain()),
        SmoothedClassifier(compose(Gaussian(0.5)), lambda seen: seen[0].value * torch.rand(()).ceil(), plain()),
    ):
        with pytest.raises(ValueError, match="global generator"):
            check(model)


class Drifting(nn.Module):
    """Changes a buffer at every call."""

    def __init__(self, persistent, calls=1000):
        super().__init__()
        self.register_buffer("shift", torch.zeros(3), persistent=persistent)
        self.left = calls

    def forward(self, x):
        if self.left:
            self.shift += 2e-4
            self.left -= 1
        return x.flatten(1)[:, :3] + self.shift


@pytest.mark.parametrize(("persistent", "calls"), [(True, 1000), (False, 1000), (True, 1)])
def test_a_network_that_drifts_or_sets_itself_up_is_refused(persistent, calls):
    model, images = cohen(Drifting(persistent, calls), sigma=0.5), torch.rand(1, 3, 8, 8)
    with pytest.raises(ValueError, match="weights or buffers"):
        Certifier(model, CertifySettings(precision="float32")).prepare(images)
    assert not model.classifier.shift.any()


def test_a_cache_that_the_first_answer_makes_passes():
    certifier = Certifier(cohen(Drifting(False, 1), sigma=0.5), CertifySettings(precision="float32"))
    certifier.prepare(torch.rand(1, 3, 8, 8))


def test_state_of_any_kind_that_stays_as_it_is_passes():
    network = plain()
    network.register_buffer("sparse", torch.eye(3).to_sparse())
    network.register_buffer("nowhere", torch.ones(3, device="meta"))
    network.register_buffer("limit", torch.tensor(torch.nan))
    check(cohen(network, sigma=0.5))


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
@pytest.mark.parametrize(
    "levels", [[1.0, 0.9], [1.0, 0.9, 0.505], [1.0, 0.9, 0.3], [0.47], [0.5], [0.505], [0.52]], ids=str
)
def test_answers_that_are_certain_do_not_hide_the_batch(answer, levels):
    images = torch.cat([torch.full((1, 3, 8, 8), level) for level in levels])
    for own in (0.8, 0.5, 0.2):
        with pytest.raises(ValueError, match=TIED):
            check(cohen(OfScores(answer, own), sigma=0.5), images)
    check(cohen(OfScores(answer, 1.0), sigma=0.5), images)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("no memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
    ids=["gpu", "cpu"],
)
def test_memory_that_is_short_is_not_blamed_on_the_images(error):
    def full(x):
        raise error

    with pytest.raises(type(error), match="memory"):
        check(cohen(Function(full), sigma=0.5))


def fine(x):
    """Logits of four pixels, to the last bit the same wherever an image is asked about; they move little."""
    return 10 + 0.01 * x.flatten(1)[:, :4]


def other_kernels(x, logits):
    """Alone an image is answered by other kernels, which round as bf16 does."""
    return logits.bfloat16().float() if len(x) == 1 else logits


def steep(x):
    """Certainties that depend on the last digits of logits, in which kernels differ."""
    logits = fine(x) + 0.012 * torch.tensor([1.0, 0.0, 0.0, 0.0])
    rounded = logits * (1 + 1e-6 * torch.tensor([1.0, -1.0, 1.0, -1.0])) if len(x) == 1 else logits
    return (3e3 * rounded).softmax(dim=1)


@pytest.mark.parametrize("network", [lambda x: other_kernels(x, fine(x)), steep], ids=["bf16", "steep"])
def test_other_kernels_for_other_sizes_of_batch_are_no_defect(network):
    calls = []
    model = cohen(Function(lambda x: calls.append(len(x)) or network(x)), sigma=0.5)
    for seed in range(20):
        torch.manual_seed(seed)
        check(model, torch.rand(2, 3, 8, 8))
    assert sum(calls) > 20 * (16 + 3 * 16) + 600  # some were suspected


class Faulty(nn.Module):
    """A fault far smaller than what other kernels round, which would hide it."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.kept = fault, {}

    def forward(self, x):
        return other_kernels(x, self.fault(self.kept, x, fine(x)))


def slowly_remembering(kept, x, logits):
    kept["mean"] = 0.999 * kept.get("mean", 0.0) + 0.001 * logits.mean(dim=0)
    return logits - kept["mean"] * torch.tensor([1.0, 0.0, 0.0, 0.0])


FAULTS = {
    "pairs": lambda kept, x, logits: torch.cat([part - 0.2 * part.mean(dim=0) for part in logits.split(2)]),
    "largest of the batch": lambda kept, x, logits: logits - 0.2 * logits.amax(dim=0),
    "place": lambda kept, x, logits: logits + 1e-3 * torch.linspace(-1, 1, logits.numel()).sin().view(logits.shape),
    "slow memory": slowly_remembering,
    "size of the batch": lambda kept, x, logits: logits * torch.linspace(1, 1 + len(x), 4),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_faults_do_not_hide_behind_what_other_kernels_round(fault):
    for seed in range(5):
        torch.manual_seed(seed)
        with pytest.raises(ValueError, match=TIED):
            check(cohen(Faulty(fault), sigma=0.5), torch.rand(2, 3, 8, 8))


def test_answers_that_are_written_into_the_same_memory_are_told_apart():
    memory = torch.empty(1000, 4)
    sound = cohen(Function(lambda x: memory[: len(x)].copy_(fine(x))), sigma=0.5)
    shared = cohen(Function(lambda x: memory[: len(x)].copy_(fine(x) - 0.2 * fine(x).mean(dim=0))), sigma=0.5)
    images = torch.rand(2, 3, 8, 8)
    check(sound, images)
    check_counted(sound, images)
    for ask in (check, check_counted):
        with pytest.raises(ValueError, match=TIED):
            ask(shared, images)


def test_lazy_layers_are_refused():
    with pytest.raises(ValueError, match="lazy"):
        check(cohen(nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), sigma=0.5))


def test_companions_that_only_plain_images_are_show_what_others_hide():
    def decided_for_all(x):
        score = 30 * (x - 0.5).mean(dim=(1, 2, 3))
        return torch.stack([-score, score], dim=1) * (1.0 if bool((score.abs() > 1).all()) else -1.0)

    with pytest.raises(ValueError, match=TIED):
        check(cohen(Function(decided_for_all), sigma=0.5), torch.full((1, 3, 8, 8), 0.8))


class Remembering(nn.Module):
    """Gives other answers once it has seen some images; keeps the number in a plain attribute."""

    def __init__(self, after):
        super().__init__()
        self.after, self.seen = after, 0

    def forward(self, x):
        self.seen += len(x)
        score = (x.mean(dim=(1, 2, 3)) - 0.5) if self.seen < self.after else 0.5 - x.mean(dim=(1, 2, 3))
        return torch.stack([-score, score], dim=1)


def test_a_network_that_changes_while_votes_are_counted_is_refused():
    images = torch.rand(2, 3, 8, 8)
    settings = CertifySettings(n_select=100, n_estimate=1000, precision="float32")
    # 900 images are seen in the checks, and as many as are counted: 2,200 in certify, 1,100 in votes
    for after in (1500, 2500):
        with pytest.raises(ValueError, match="answers the same draws otherwise"):
            Certifier(cohen(Remembering(after), sigma=0.5), settings, batch_size=100)(images)
    with pytest.raises(ValueError, match="answers the same draws otherwise"):
        Certifier(cohen(Remembering(1500), sigma=0.5), settings, batch_size=100).votes(images, n=1000)
    Certifier(cohen(Remembering(10**6), sigma=0.5), settings, batch_size=100)(images)


def test_no_more_than_one_draw_of_a_hundred_is_repeated():
    sizes = []
    model = cohen(Function(lambda x: sizes.append(len(x)) or x.flatten(1)[:, :2]), sigma=0.5)
    certifier = Certifier(model, CertifySettings(n_select=100, n_estimate=5000, precision="float32"), batch_size=1000)
    images = torch.rand(1, 3, 8, 8)
    certifier.prepare(images)
    sizes.clear()
    certifier(images)
    assert sizes[-1] == 51
    assert sum(sizes) == 5100 + 51
