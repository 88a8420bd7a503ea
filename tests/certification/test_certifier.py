"""Certifier, certify() and predict(): what is certified, and what is left as it was."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, norm
from torch import nn

from ars import adaptive, cohen, sukenik
from ars.certification.bounds import BOUNDS, class_probabilities
from ars.certification.certificate import Certificate, Prediction
from ars.certification.certifier import Certifier, certify, conclude, predict
from ars.certification.digest import digest_model
from ars.certification.images import as_batch
from ars.certification.settings import BLOCK, CertifySettings, Schedule
from ars.certification.stopping import Outcome
from ars.certification.votes import block_seed
from ars.models import UNet
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose
from ars.theory import UnsupportedThreat, ars_radius_linf

from .user_parts import Calls, Function, plain

QUICK = {"n_select": 20, "n_estimate": 500, "seed": 0}
SETTINGS = CertifySettings(**QUICK, precision="float32")

DOORS = {
    "certify": lambda model, images: certify(model, images, **QUICK),
    "predict": lambda model, images: predict(model, images, seed=0),
    "certifier": lambda model, images: Certifier(model, SETTINGS)(images),
    "votes": lambda model, images: Certifier(model, SETTINGS).votes(images, n=100),
}
every_door = pytest.mark.parametrize("ask", DOORS.values(), ids=DOORS)


def concluded(select_counts, counts, *, bound="cohen", alpha=0.05, dim=192):
    n = sum(counts)
    return conclude(
        compose(Gaussian(0.5), MaskedGaussian(0.7, nn.Identity())), np.array(select_counts),
        Outcome(Schedule("fixed", n), n, "planned", tuple(counts)), CertifySettings(alpha=alpha, bound=bound),
        dim=dim, index=0, precision="float32",
    )  # fmt: skip


votes = st.lists(st.integers(0, 3000), min_size=2, max_size=10).filter(lambda counts: sum(counts) > 0)


@given(votes, st.data(), st.sampled_from(BOUNDS), st.floats(min_value=1e-6, max_value=0.5))
def test_an_abstention_never_has_a_radius_and_a_label_always_has_one(counts, data, bound, alpha):
    chosen = data.draw(st.integers(0, len(counts) - 1))
    select = [int(label == chosen) for label in range(len(counts))]
    answer = concluded(select, counts, bound=bound, alpha=alpha)
    assert answer.candidate == chosen
    assert (answer.label is None) == (answer.radius == 0)
    assert (answer.radius > 0) <= (answer.p_lower > answer.p_upper)
    assert answer.radius == answer.radii[bound]
    assert set(answer.radii) == set(BOUNDS)
    assert answer.n_estimate == sum(counts)


@given(votes, st.sampled_from(BOUNDS))
def test_the_radius_is_the_closed_form_at_the_stated_bounds(counts, bound):
    answer = concluded([1] + [0] * (len(counts) - 1), counts, bound=bound)
    lower, upper = class_probabilities(counts, 0, 0.05, bound)
    assert (answer.p_lower, answer.p_upper) == (lower, upper)
    closed = ars_radius_linf([0.5, 0.7], 192, lower, upper) if lower > upper else 0.0
    assert answer.radius == pytest.approx(closed, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.001, 1e-6])
def test_the_bounds_are_those_of_the_requested_alpha(alpha):
    """Clopper and Pearson's, from the quantiles of the beta distribution."""
    hits, second, n = 900, 60, 1000
    cohens = concluded([9, 1, 0], [hits, second, n - hits - second], alpha=alpha)
    assert cohens.p_lower == pytest.approx(beta.ppf(alpha, hits, n - hits + 1), rel=1e-6)
    assert cohens.p_upper == pytest.approx(1 - cohens.p_lower, rel=1e-6)
    classes = concluded([9, 1, 0], [hits, second, n - hits - second], alpha=alpha, bound="classes")
    assert classes.p_lower == pytest.approx(beta.ppf(0.9 * alpha, hits, n - hits + 1), rel=1e-6)
    assert classes.p_upper == pytest.approx(
        min(1 - classes.p_lower, beta.isf(0.1 * alpha / 2, second + 1, n - second)), rel=1e-6
    )


def test_the_class_is_chosen_by_the_selection_draws_alone():
    """An estimate that disagrees with the selection is an abstention, not a change of mind."""
    answer = concluded([9, 1], [10, 990])
    assert (answer.candidate, answer.label) == (0, None)


def test_one_step_is_cohen_et_al():
    """Their procedure written out here: the same noise, the same votes, the radius sigma Phi^-1(lower)."""
    sigma, alpha, n, index, seed = 0.5, 0.05, 450, 7, 11
    x = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(1)
    g = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

    def sample(stage, draws):
        counts = np.zeros(3, dtype=int)
        for block in range(math.ceil(draws / BLOCK)):
            generator = torch.Generator().manual_seed(block_seed(seed, index, stage, block))
            noise = torch.empty(BLOCK, 3, 4, 4).normal_(generator=generator)
            labels = g(x + sigma * noise).argmax(dim=1)[: draws - block * BLOCK]
            counts += np.bincount(labels.numpy(), minlength=3)
        return counts

    selected = sample("select", 50)
    top = int(selected.argmax())
    counts = sample("estimate", n)
    lower = beta.ppf(alpha, counts[top], n - counts[top] + 1)
    answer = certify(
        cohen(g, sigma=sigma), x, norm="l2", n_select=50, n_estimate=n, alpha=alpha, seed=seed, indices=[index]
    )
    assert answer.select_counts == tuple(selected)
    assert answer.counts == tuple(counts)
    assert answer.label == top
    assert answer.p_lower == pytest.approx(lower, rel=1e-8)
    assert answer.radius == pytest.approx(sigma * norm.ppf(lower), rel=1e-7)
    assert answer.radius < sigma * norm.ppf(lower)


def test_an_image_gives_one_certificate_and_a_batch_a_list(cohen):
    x = torch.rand(3, 1, 4, 4)
    batch = certify(cohen(), x, indices=[5, 6, 7], **QUICK)
    one = certify(cohen(), x[1], indices=[6], **QUICK)
    assert [answer.index for answer in batch] == [5, 6, 7]
    assert isinstance(one, Certificate)
    assert one == batch[1]


def test_a_certificate_says_what_was_done(ars):
    answer = certify(ars(0.6, 0.9), torch.full((1, 4, 4), 0.9), alpha=0.01, n_select=30, n_estimate=300, seed=4)
    assert (answer.norm, answer.dim, answer.alpha, answer.seed, answer.index) == ("linf", 16, 0.01, 4, 0)
    assert (answer.sigmas, answer.label, answer.precision) == ((0.6, 0.9), 1, "float32")
    assert (sum(answer.select_counts), sum(answer.counts)) == (30, 300)


@pytest.mark.parametrize(
    "changes", [{}, {"mode": "radius", "tolerance": 0.1}, {"mode": "curve", "radii": (0.001, 0.05)}], ids=str
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_certifier_gives_the_certificates_of_certify_however_often_it_was_used(network, changes, precision):
    images = torch.rand(4, 3, 6, 6)
    how = {**QUICK, **changes, "precision": precision}
    certifier = Certifier(network, CertifySettings(**how), expect=4)
    answers = [*certifier(images[:1], [3]), *certifier(images[1:], [8, 1, 5]), *certifier(images[0], [3])]
    assert answers[:4] == certify(network, images, indices=[3, 8, 1, 5], **how)
    assert answers[4] == answers[0]


def test_votes_are_those_that_certificates_rest_on(network, images):
    certifier = Certifier(network, SETTINGS)
    for answer, index in zip(certifier(images, [4, 5, 6]), range(3), strict=True):
        image, name = images[index], [4 + index]
        assert tuple(certifier.votes(image, name, n=20)[0]) == answer.select_counts
        assert tuple(certifier.votes(image, name, n=500, stage="estimate")[0]) == answer.counts


def attributes(model):
    """All attributes of every part; dictionaries, such as those of parts and hooks, are copied."""
    return [
        (part, {name: dict(value) if isinstance(value, dict) else value for name, value in vars(part).items()})
        for part in model.modules()
    ]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_model_is_never_changed(precision):
    torch.manual_seed(0)
    model = adaptive(plain(), UNet(4), sigma=0.5, share="learned").train()
    model.classifier[1].eval()
    model.classifier[3].register_forward_hook(lambda *_: None)
    model.classifier[6].forward = model.classifier[6].forward
    before = attributes(model)
    tensors = {name: tensor.clone() for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    images = torch.rand(2, 3, 16, 16)
    how = {"n_select": 20, "n_estimate": 100, "seed": 0, "precision": precision}
    Certifier(model, CertifySettings(**how), expect=10)(images)
    certify(model, images, **how)
    predict(model, images, n=100, seed=0, precision=precision)
    assert attributes(model) == before
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        assert torch.equal(tensor, tensors[name])


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.levels = nn.Linear(108, 4), [0.0]

    def forward(self, x):
        return self.linear(x.flatten(1)) + torch.tensor([self.levels[0], 0.0, 0.0, 0.0])


CHANGES = {
    "weights": lambda model: model.classifier.linear.weight.data.neg_(),
    "value in a list": lambda model: model.classifier.levels.__setitem__(0, 100.0),
    "hook": lambda model: model.classifier.register_forward_hook(lambda part, args, logits: -logits),
    "classifier": lambda model: setattr(model, "classifier", Function(lambda x: x.flatten(1)[:, :4])),
    "combine": lambda model: setattr(model, "combine", lambda releases: 1 - releases[0].value),
    "noise": lambda model: setattr(model.mechanism.steps[0], "_sigma", 5.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_later_changes_of_the_model_change_nothing(images, change):
    torch.manual_seed(0)
    model = cohen(Shifted(), sigma=0.5)
    certifier, late = Certifier(model, SETTINGS), Certifier(model, SETTINGS)
    before = certifier(images)
    change(model)
    indices = range(len(images))
    assert certifier(images, indices) == late(images, indices) == before
    assert certify(model, images, **QUICK) != before


def test_a_learned_split_draws_and_states_the_noise_of_its_copy(images):
    model = adaptive(plain(), UNet(4), sigma=0.5, share="learned")
    with torch.no_grad():
        model.mechanism.steps[0].split.logit.fill_(1.0)
    images = torch.rand(1, 3, 16, 16)
    certifier, stated = Certifier(model, SETTINGS), model.mechanism.sigmas
    before = certifier(images)
    with torch.no_grad():
        model.mechanism.steps[0].split.logit.fill_(-2.0)
    assert certifier(images, [0]) == before
    assert before[0].sigmas == stated != model.mechanism.sigmas
    scale = certifier.prepare(images).model.mechanism.steps[1].scale().detach()
    assert float(scale) >= stated[1] > 0.9 * float(scale)


def test_references_that_are_not_saved_are_shared_and_the_rest_is_not():
    model = sukenik(plain(), torch.rand(30, 3, 16, 16), sigma=0.5)
    copy = Certifier(model, SETTINGS).prepare(torch.rand(1, 3, 16, 16)).model
    assert copy.noise.references is model.noise.references
    assert not {id(part) for part in model.classifier.modules()} & {id(part) for part in copy.modules()}
    assert digest_model(copy) == digest_model(model)


WRONG_MODELS = {
    # a coin that all draws of a batch share: a fifth of such certificates were false at alpha = .001
    "batch statistics": (nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten()), "0 is a BatchNorm"),
    "the batch": (Function(lambda x: x.flatten(1) - x.flatten(1).mean(dim=0)), "among others"),
    "large batches": (Function(lambda x: x.flatten(1) - x.flatten(1).mean(dim=0) * (len(x) > 50)), "among others"),
    "randomness": (Function(lambda x: x.flatten(1)[:, :3] + torch.rand(())), "global generator"),
    "tuple": (Function(lambda x: (x, x)), "logits"),
    "one class": (Function(lambda x: x.flatten(1)[:, :1]), "logits"),
    "nan": (Function(lambda x: x.flatten(1) * torch.nan), "NaN"),
    "fewer answers": (Function(lambda x: x.flatten(1)[:100, :2]), "each image once"),
    "size": (nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), r"\[1, 4, 4\]"),
}


@every_door
@pytest.mark.parametrize(("network", "named"), WRONG_MODELS.values(), ids=WRONG_MODELS)
def test_every_door_goes_through_the_same_checks(ask, network, named):
    with pytest.raises(ValueError, match=named):
        ask(cohen(network, sigma=0.5), torch.rand(2, 1, 4, 4))


@every_door
def test_only_smoothed_classifiers_that_are_drawn_as_they_say_are_certified(cohen, ask):
    with pytest.raises(TypeError, match="Linear"):
        ask(nn.Linear(4, 2), torch.rand(1, 4, 4))
    for name in ("forward", "guarantee", "radius"):
        model = cohen()
        own = type("Own", (SmoothedClassifier,), {name: lambda *arguments, **options: 1.0})
        patched = cohen()
        setattr(patched, name, lambda *arguments, **options: 1.0)
        for changed in (own(model.mechanism, model.combine, model.classifier), patched):
            with pytest.raises(TypeError, match=name):
                ask(changed, torch.rand(1, 4, 4))
        assert not model.classifier.calls + patched.classifier.calls


def test_images_of_each_shape_are_checked_once():
    calls = Calls()
    certifier = Certifier(
        cohen(Function(lambda x: calls.append(len(x)) or x.flatten(1)[:, :3]), sigma=0.5), SETTINGS, batch_size=100
    )
    counter = certifier.prepare(torch.rand(2, 3, 8, 8))
    checked = len(calls)
    assert checked > 9
    assert certifier.prepare(torch.rand(5, 3, 8, 8)) is counter
    assert len(calls) == checked
    certifier.votes(torch.rand(2, 3, 8, 8), n=100)
    assert len(calls) == checked + 3  # the last one looks for drift
    assert certifier.prepare(torch.rand(2, 3, 4, 4)) is not counter
    assert len(calls) > checked + 3


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, torch.tensor])
def test_numbers_of_any_kind_are_stated_as_plain_ones(cohen, kind):
    x, plain = torch.rand(1, 1, 4, 4), {"n_select": 20, "n_estimate": 200, "seed": 7, "indices": [3], "batch_size": 100}
    given = {name: [kind(3)] if name == "indices" else kind(number) for name, number in plain.items()}
    (expected,) = certify(cohen(), x, alpha=0.0625, **plain)
    (answer,) = certify(cohen(), x, alpha=np.float32(0.0625), **given)
    assert answer == expected
    assert (type(answer.seed), type(answer.index), type(answer.alpha)) == (int, int, float)
    assert type(answer.schedule.n_max) is int
    (label,) = predict(cohen(), x, n=kind(200), seed=kind(7), indices=[kind(3)])
    assert (type(label.seed), type(label.index), sum(label.counts)) == (int, int, 200)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"x": torch.rand(1, 4, 4) + 1}, r"\[0, 1\]"),
        ({"n_estimate": 9, "alpha": 0.001}, "at least 10 draws"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "3"}, "batch_size"),
        ({"seed": 2**32}, "^seed"),
        ({"norm": "l1"}, "norm"),
        ({"precision": "float16"}, "precision"),
        ({"indices": [0, 1]}, "distinct index"),
        ({"indices": [0.7]}, "index"),
        ({"indices": 3}, "indices"),
        ({"indices": [2**32]}, "index"),
        ({"x": torch.rand(2, 1, 4, 4), "indices": [3, 3]}, "distinct index"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_is_drawn(cohen, changes, named):
    model = cohen()
    request = {"x": torch.rand(1, 4, 4), **QUICK, **changes}
    with pytest.raises(ValueError, match=named):
        certify(model, request.pop("x"), **request)
    assert not model.classifier.calls


def test_l2_for_a_masked_model_is_refused_before_anything_is_drawn(ars):
    model = ars()
    for ask in (
        lambda: certify(model, torch.rand(1, 4, 4), norm="l2", **QUICK),
        lambda: Certifier(model, CertifySettings(norm="l2"))(torch.rand(1, 4, 4)),
    ):
        with pytest.raises(UnsupportedThreat, match="linf"):
            ask()
    assert not model.classifier.calls


def exact_two_sided(k, n):
    """P(|Bin(n, 1/2) - n/2| >= |k - n/2|) in integers."""
    ways = sum(math.comb(n, j) for j in range(n + 1) if abs(2 * j - n) >= abs(2 * k - n))
    return ways / 2**n


@pytest.mark.parametrize("level", [0.45, 0.5, 0.55, 0.7])
def test_a_prediction_is_the_exact_binomial_test_of_the_two_leading_classes(cohen, level):
    x = torch.full((20, 1, 2, 2), level)
    for answer in predict(cohen(classes=4), x, n=150, alpha=0.05, seed=0):
        assert isinstance(answer, Prediction)
        assert sum(answer.counts) == 150
        runner_up, leader = sorted(answer.counts)[-2:]
        expected = exact_two_sided(leader, leader + runner_up)
        assert answer.p_value == pytest.approx(expected, rel=1e-9)
        assert answer.label == (answer.counts.index(leader) if expected <= 0.05 else None)


@pytest.mark.parametrize(("counts", "leader", "n"), [([60, 35, 55], 60, 115), ([50, 50, 0], 50, 100)])
def test_neither_a_third_class_nor_a_tie_tells_the_leading_ones_apart(cohen, monkeypatch, counts, leader, n):
    monkeypatch.setattr(Certifier, "votes", lambda *_, **__: np.array([counts]))
    answer = predict(cohen(), torch.rand(1, 2, 2), n=sum(counts), alpha=0.05, seed=0)
    assert answer.p_value == pytest.approx(exact_two_sided(leader, n), rel=1e-9)
    assert (answer.counts, answer.label) == (tuple(counts), None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n": 100.5}, "n must"),
        ({"n": 10**21}, "n must"),
        ({"n": 5, "alpha": 0.05}, "two classes"),
        ({"seed": 2**32}, "^seed"),
        ({"alpha": math.nan}, "alpha"),
        ({"indices": [0.7]}, "index"),
        ({"precision": "float16"}, "precision"),
    ],
)
def test_a_prediction_that_cannot_be_made_is_refused_before_anything_is_drawn(cohen, changes, named):
    model = cohen()
    with pytest.raises(ValueError, match=named):
        predict(model, torch.rand(1, 4, 4), **{"seed": 0, **changes})
    assert not model.classifier.calls


def test_the_callers_own_autocast_changes_nothing():
    layers, seen = nn.Sequential(nn.Flatten(), nn.Linear(48, 3)), set()

    def forward(x):
        logits = layers(x)
        seen.add(logits.dtype)
        return logits

    torch.manual_seed(0)
    model, x = cohen(Function(forward), sigma=0.5), torch.rand(3, 4, 4)
    alone = certify(model, x, n_estimate=1000, seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert certify(model, x, n_estimate=1000, seed=0) == alone
    assert (alone.precision, seen) == ("float32", {torch.float32})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_an_image_becomes_a_batch_in_float32_without_a_gradient_or_a_warning(dtype):
    image = torch.rand(3, 4, 5).to(dtype).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, batch = as_batch(image), as_batch(image[None])
    assert torch.equal(one, image[None].float())
    assert torch.equal(batch, one)
    assert (one.dtype, one.requires_grad, image.requires_grad) == (torch.float32, False, True)


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ([[0.5]], "list"),
        (torch.ones(3, 4, 4, dtype=torch.uint8), "255"),
        (torch.ones(3, 4, 4, dtype=torch.bool), "floating"),
        (torch.zeros(4, 4), "shape"),
        (torch.zeros(1, 1, 3, 4, 4), "shape"),
        (torch.zeros(3, 0, 4), "empty"),
        *((torch.ones(3, 4, 4).index_fill(0, torch.tensor(1), bad), r"\[0, 1\]") for bad in (-1e-6, 1.0001, math.nan)),
    ],
)
def test_what_is_no_image_is_refused(image, named):
    with pytest.raises((TypeError, ValueError), match=named):
        as_batch(image)


def test_images_get_the_indices_that_follow_by_default(network, images):
    certifier = Certifier(network, SETTINGS)
    certificates = [certificate for image in images for certificate in certifier(image)]
    assert [certificate.index for certificate in certificates] == list(range(len(images)))
    assert certificates == certify(network, images, **QUICK)
    certifier(images[0], [7])
    assert certifier(images[0])[0].index == 8
    certifier.votes(images, n=100)
    assert certifier(images[0])[0].index == 12
