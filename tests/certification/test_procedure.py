import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, norm
from torch import nn

from ars.certification.bounds import BOUNDS, class_probabilities
from ars.certification.certificate import Certificate, Prediction
from ars.certification.procedure import certify, conclude, predict
from ars.certification.sampling import BLOCK, block_seed
from ars.certification.schedule import Outcome, Schedule
from ars.methods import cohen
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance
from ars.theory import UnsupportedThreat, ars_radius_linf

QUICK = {"n_select": 20, "n_estimate": 500, "seed": 0}


def two_steps():
    return SmoothedClassifier(
        compose(Gaussian(0.5), MaskedGaussian(0.7, nn.Identity())), minimum_variance, nn.Identity()
    )


def concluded(select_counts, counts, *, bound="cohen", alpha=0.05, model=None, dim=192):
    n = sum(counts)
    return conclude(
        model or two_steps(), np.array(select_counts), Outcome(Schedule("fixed", n), n, "planned", tuple(counts)),
        norm="linf", dim=dim, alpha=alpha, bound=bound, seed=0, index=0, precision="float32",
    )  # fmt: skip


votes = st.lists(st.integers(0, 3000), min_size=2, max_size=10).filter(lambda counts: sum(counts) > 0)


@given(votes, st.data(), st.sampled_from(BOUNDS), st.floats(min_value=1e-6, max_value=0.5))
def test_an_abstention_never_has_a_radius_and_a_label_always_has_one(counts, data, bound, alpha):
    chosen = data.draw(st.integers(0, len(counts) - 1))
    select = [int(label == chosen) for label in range(len(counts))]
    answer = concluded(select, counts, bound=bound, alpha=alpha)
    assert answer.candidate == chosen
    assert (answer.label is None) == (answer.radius == 0)
    assert answer.label in (None, chosen)
    if answer.radius > 0:
        assert answer.p_lower > answer.p_upper
        # an answer that may be wrong more often than not may also be one with fewer votes
        assert answer.counts[chosen] == max(answer.counts) or alpha > 0.5
    if answer.p_lower <= answer.p_upper:
        assert answer.label is None
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


@given(st.integers(1, 5000), st.data(), st.sampled_from(BOUNDS))
def test_the_radius_grows_with_the_votes_and_shrinks_with_confidence(n, data, bound):
    k = data.draw(st.integers(0, n - 1))
    less, more = (concluded([1, 0], [votes, n - votes], bound=bound).radius for votes in (k, k + 1))
    assert less <= more
    strict, loose = (concluded([1, 0], [k, n - k], bound=bound, alpha=alpha).radius for alpha in (0.001, 0.1))
    assert strict <= loose


def test_the_class_is_chosen_by_the_selection_draws_alone():
    """An estimate that disagrees with the selection is an abstention, not a change of mind."""
    answer = concluded([9, 1], [10, 990])
    assert answer.candidate == 0
    assert answer.label is None


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
        SmoothedClassifier(compose(Gaussian(sigma)), last, g), x, norm="l2", n_select=50, n_estimate=n, alpha=alpha,
        seed=seed, indices=[index],
    )  # fmt: skip
    assert answer.select_counts == tuple(selected)
    assert answer.counts == tuple(counts)
    assert answer.label == top
    assert answer.p_lower == pytest.approx(lower, rel=1e-8)
    assert answer.radius == pytest.approx(sigma * norm.ppf(lower), rel=1e-7)
    assert answer.radius < sigma * norm.ppf(lower)


def test_an_all_ones_static_mask_is_randomized_smoothing():
    class Ones(nn.Module):
        def forward(self, image):
            return torch.ones_like(image[:, :1])

    torch.manual_seed(0)
    g = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    x = torch.rand(2, 3, 4, 4)
    plain = certify(SmoothedClassifier(compose(Gaussian(0.5)), last, g), x, **QUICK)
    masked = certify(SmoothedClassifier(compose(MaskedGaussian(0.5, Ones())), last, g), x, **QUICK)
    assert [a.counts for a in masked] == [a.counts for a in plain]
    assert [a.radius for a in masked] == [a.radius for a in plain]


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
    assert answer.sigmas == (0.6, 0.9)
    assert (sum(answer.select_counts), sum(answer.counts)) == (30, 300)
    assert answer.label == 1


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, torch.tensor])
def test_numbers_of_any_kind_are_stated_as_plain_ones(cohen, kind):
    x, plain = torch.rand(1, 1, 4, 4), {"n_select": 20, "n_estimate": 200, "seed": 7, "indices": [3], "batch_size": 100}
    given = {name: [kind(3)] if name == "indices" else kind(number) for name, number in plain.items()}
    (expected,) = certify(cohen(), x, alpha=0.0625, **plain)
    for alpha in (np.float32(0.0625), np.float64(0.0625), torch.tensor(0.0625)):
        (answer,) = certify(cohen(), x, alpha=alpha, **given)
        assert answer == expected
        assert (type(answer.seed), type(answer.index), type(answer.alpha)) == (int, int, float)
        assert type(answer.schedule.n_max) is int
    del given["n_select"], given["n_estimate"], plain["n_select"], plain["n_estimate"]
    assert predict(cohen(), x, n=kind(200), alpha=0.05, **given) == predict(cohen(), x, n=200, alpha=0.05, **plain)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": torch.rand(1, 4, 4) + 1}, r"images must lie in \[0, 1\]"),
        ({"x": torch.rand(1, 4, 4) - 1}, r"images must lie in \[0, 1\]"),
        ({"x": torch.full((1, 4, 4), math.nan)}, r"images must lie in \[0, 1\]"),
        ({"x": torch.rand(4, 4)}, "expected an image"),
        ({"x": torch.ones(1, 4, 4, dtype=torch.uint8)}, "divide 8-bit images by 255"),
        ({"alpha": 0.0}, "alpha must lie between 1e-100 and 0.5"),
        ({"alpha": 1.0}, "alpha must lie between 1e-100 and 0.5"),
        ({"alpha": math.nan}, "alpha must lie between 1e-100 and 0.5"),
        ({"n_estimate": 4}, "use at least 5 draws"),
        ({"n_estimate": 9, "alpha": 0.001}, "use at least 10 draws"),
        ({"n_estimate": 0}, "n_estimate must be a whole number of at least 1"),
        ({"n_estimate": 10**21}, "n_estimate must be at most 214748364800, got 1000000000000000000000"),
        ({"n_select": 2**31 * 100 + 1}, "n_select must be at most 214748364800, got 214748364801"),
        ({"n_estimate": 1000.5}, "n_estimate must be a whole number of at least 1, got 1000.5"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
        ({"n_select": 0}, "n_select must be a whole number of at least 1"),
        ({"n_estimate": True}, "n_estimate must be a whole number of at least 1, got True"),
        ({"n_select": None}, "n_select must be a whole number of at least 1, got None"),
        ({"batch_size": "3"}, "batch_size must be a whole number of at least 1, got '3'"),
        ({"alpha": "0.1"}, "alpha must be a number, got '0.1'"),
        ({"alpha": None}, "alpha must be a number, got None"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": None}, "seed must be a whole number of at least 0, got None"),
        ({"seed": 0.5}, "seed must be a whole number of at least 0, got 0.5"),
        ({"seed": True}, "seed must be a whole number of at least 0, got True"),
        ({"mode": "curve", "radii": ["0.1"]}, "each of radii must be a number, got '0.1'"),
        ({"mode": "curve", "radii": 0.1}, "radii must be a list of numbers, got 0.1"),
        ({"mode": "curve", "radii": "12"}, "radii must be a list of numbers, got '12'"),
        ({"mode": "radius", "tolerance": "0.1"}, "tolerance must be a number, got '0.1'"),
        ({"seed": 2**32}, "must be below 2\\^32"),
        ({"norm": "l1"}, "norm must be one of"),
        ({"bound": "wilson"}, "bound must be one of"),
        ({"precision": "float16"}, "precision must be one of"),
        ({"indices": [0, 1]}, "one distinct index"),
        ({"indices": [-1]}, "an image's index must be a whole number of at least 0, got -1"),
        ({"indices": [0.7]}, "an image's index must be a whole number of at least 0, got 0.7"),
        ({"indices": ["a"]}, "an image's index must be a whole number of at least 0, got 'a'"),
        ({"indices": [True]}, "an image's index must be a whole number of at least 0, got True"),
        ({"indices": 3}, "indices must be a list of whole numbers, one for each image, got 3"),
        ({"indices": [2**32]}, "must be below 2\\^32"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_is_drawn(cohen, changes, sentence):
    model = cohen()
    request = {"x": torch.rand(1, 4, 4), **QUICK, **changes}
    with pytest.raises(ValueError, match=sentence):
        certify(model, request.pop("x"), **request)
    assert not model.classifier.calls


def test_two_images_need_two_names(cohen):
    with pytest.raises(ValueError, match="one distinct index"):
        certify(cohen(), torch.rand(2, 1, 4, 4), indices=[3, 3], **QUICK)


def test_l2_for_a_masked_model_is_refused_before_anything_is_drawn(ars):
    model = ars()
    with pytest.raises(UnsupportedThreat, match="certify 'linf', or use Gaussian steps for 'l2'"):
        certify(model, torch.rand(1, 4, 4), norm="l2", **QUICK)
    assert not model.classifier.calls


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (lambda image: 1.5 * torch.ones_like(image), r"mask must lie in \[0, 1\]"),
        (lambda image: math.nan * image, r"mask must lie in \[0, 1\]"),
        (lambda image: image[:1].sigmoid(), "the mask must give"),
    ],
)
def test_a_bad_mask_stops_the_certification(threshold, weights, sentence):
    class Bad(nn.Module):
        def forward(self, image):
            return weights(image)

    classifier = threshold()
    model = SmoothedClassifier(compose(Gaussian(0.5), MaskedGaussian(0.5, Bad())), minimum_variance, classifier)
    with pytest.raises(ValueError, match=sentence):
        certify(model, torch.rand(1, 4, 4), **QUICK)
    assert not classifier.calls


def test_the_least_number_of_draws_is_enough(cohen):
    answer = certify(cohen(sigma=0.01), torch.ones(1, 4, 4), n_select=10, n_estimate=5, alpha=0.05, seed=0)
    assert answer.label == 1
    assert answer.radius > 0


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


def test_votes_for_a_third_class_do_not_tell_the_two_leading_ones_apart(cohen, monkeypatch):
    monkeypatch.setattr("ars.certification.procedure.local_votes", lambda *_, **__: np.array([[60, 35, 55]]))
    answer = predict(cohen(), torch.rand(1, 2, 2), n=150, alpha=0.05, seed=0)
    assert answer.p_value == pytest.approx(exact_two_sided(60, 115), rel=1e-9)
    assert answer.label is None


def test_a_tie_is_an_abstention(cohen, monkeypatch):
    monkeypatch.setattr("ars.certification.procedure.local_votes", lambda *_, **__: np.array([[50, 50, 0]]))
    answer = predict(cohen(), torch.rand(1, 2, 2), n=100, alpha=0.5, seed=0)
    assert answer.counts == (50, 50, 0)
    assert answer.label is None
    assert answer.p_value == 1.0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": 100.5}, "n must be a whole number of at least 1, got 100.5"),
        ({"n": 10**21}, "n must be at most 214748364800, got 1000000000000000000000"),
        ({"n": True}, "n must be a whole number of at least 1, got True"),
        ({"n": None}, "n must be a whole number of at least 1, got None"),
        ({"seed": None}, "seed must be a whole number of at least 0, got None"),
        ({"alpha": "0.1"}, "alpha must be a number, got '0.1'"),
        ({"indices": [0.7]}, "an image's index must be a whole number of at least 0, got 0.7"),
    ],
)
def test_predict_refuses_what_is_no_number_before_anything_is_drawn(cohen, changes, sentence):
    model = cohen()
    with pytest.raises(ValueError, match=sentence):
        predict(model, torch.rand(1, 4, 4), **{"seed": 0, **changes})
    assert not model.classifier.calls


@pytest.mark.parametrize("alpha", [0.0, 1.0, math.nan, -1.0])
def test_predict_refuses_a_bad_alpha(cohen, alpha):
    with pytest.raises(ValueError, match="alpha must lie between"):
        predict(cohen(), torch.rand(1, 4, 4), alpha=alpha, seed=0)


def test_predict_refuses_too_few_draws_before_drawing(cohen):
    model = cohen()
    with pytest.raises(ValueError, match="cannot tell two classes apart"):
        predict(model, torch.rand(1, 4, 4), n=5, alpha=0.05, seed=0)
    assert not model.classifier.calls
    # 2 * .5^6 = .03125: six draws are enough
    assert predict(cohen(sigma=0.01), torch.ones(1, 4, 4), n=6, alpha=0.05, seed=0).label == 1


@pytest.mark.parametrize("ask", [certify, predict])
def test_what_is_no_image_or_no_smoothed_classifier_is_named(cohen, ask):
    with pytest.raises(TypeError, match=r"images must be a torch tensor, got ndarray; use torch\.from_numpy"):
        ask(cohen(), np.zeros((1, 4, 4), dtype=np.float32), seed=0)
    with pytest.raises(TypeError, match="images must be a torch tensor, got list"):
        ask(cohen(), [torch.rand(1, 4, 4)], seed=0)
    with pytest.raises(TypeError, match=r"expected a smoothed classifier, got Linear; smooth it: ars\.cohen"):
        ask(nn.Linear(4, 2), torch.rand(1, 4, 4), seed=0)


@pytest.mark.parametrize("ask", [certify, predict])
def test_logits_that_are_no_votes_are_refused(ask):
    class Wrong(nn.Module):
        def __init__(self, change):
            super().__init__()
            self.change = change

        def forward(self, image):
            return self.change(image.flatten(1))

    for change, sentence in [
        (lambda x: (x, x), "got tuple"),
        (lambda x: x[:, :1], r"got \[8, 1\]"),
        (lambda x: x.unsqueeze(0), r"got \[1, 8, 16\]"),
        (lambda x: x * torch.nan, "no numbers"),
    ]:
        model = SmoothedClassifier(compose(Gaussian(0.5)), last, Wrong(change))
        with pytest.raises(ValueError, match=sentence):
            ask(model, torch.rand(1, 4, 4), seed=0)


def test_the_callers_own_autocast_changes_nothing():
    seen = set()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

        def forward(self, x):
            logits = self.layers(x)
            seen.add(logits.dtype)
            return logits

    torch.manual_seed(0)
    model, x = cohen(Net(), sigma=0.5), torch.rand(3, 4, 4)
    alone = certify(model, x, n_estimate=1000, seed=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert certify(model, x, n_estimate=1000, seed=0) == alone
    assert (alone.precision, seen) == ("float32", {torch.float32})


def test_a_networks_own_autocast_is_its_own():
    seen = []

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

        def forward(self, x):
            with torch.autocast("cpu"):
                logits = self.layers(x)
            seen.append(logits.dtype)
            return logits.float()

    before = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        certify(cohen(Own(), sigma=0.5), torch.rand(3, 4, 4), n_estimate=200, seed=0)
    finally:
        torch.set_autocast_dtype("cpu", before)
    assert set(seen) == {torch.float16}
