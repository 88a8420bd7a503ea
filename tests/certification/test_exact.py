"""Exact mode from the request to the record: who may use it, on which images, and what is written."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import ars
from ars.certification.certifier import Certifier, certify, check_request
from ars.certification.martingale import levels_of
from ars.certification.settings import CertifySettings
from ars.recipes.recipe import Recipe
from ars.runs.records import Record
from ars.smoothing import GeneralisedNormal, SmoothedClassifier, compose, last
from ars.smoothing.mechanism import Tape
from ars.training.loss import Objective


class Brightness(nn.Module):
    def forward(self, image):
        light = 40 * (image.mean(dim=(1, 2, 3)) - 0.5)
        return torch.stack([light, -light], dim=1)


class Saliency(nn.Module):
    """A mask that depends on what it sees."""

    def forward(self, image):
        return image.mean(dim=1, keepdim=True).sigmoid()


def grid(*shape, seed=3):
    return torch.randint(60, 256, shape, generator=torch.Generator().manual_seed(seed)).float() / 255


@pytest.fixture(params=["cohen", "adaptive"])
def model(request):
    net = Brightness().eval()
    return ars.cohen(net, sigma=0.3) if request.param == "cohen" else ars.adaptive(net, Saliency(), sigma=0.3)


def test_exact_certificates_say_so_and_differ_little(model):
    images = grid(3, 3, 16, 16)
    plain = certify(model, images, n_estimate=1000, seed=0)
    exact = certify(model, images, n_estimate=1000, seed=0, exact=True)
    for one, other in zip(plain, exact, strict=True):
        assert (one.exact, other.exact) == (False, True)
        assert one.label == other.label
        assert other.radius == pytest.approx(one.radius, abs=0.5 / 255)
    assert not any(step.exact for step in model.mechanism.steps), "the user's model is never changed"


def test_the_radius_is_that_of_the_exact_guarantee(model):
    """From the same votes the default mode would state more."""
    image = grid(1, 3, 16, 16)
    [certificate] = certify(model, image, n_estimate=1000, seed=0, exact=True)
    default = model.radius(certificate.p_lower, certificate.p_upper, norm="linf", dim=768)
    assert 0 < certificate.radius < default


def test_votes_do_not_depend_on_the_batch_size(model):
    images = grid(2, 3, 16, 16)
    counts = [
        [it.counts for it in certify(model, images, n_estimate=500, seed=0, exact=True, batch_size=size)]
        for size in (100, 700)
    ]
    assert counts[0] == counts[1]


def test_a_model_with_an_exact_step_of_its_own_needs_no_request():
    one = ars.Gaussian(0.3, exact=True)
    mixed = SmoothedClassifier(compose(one, ars.Gaussian(0.3)), last, Brightness())
    [certificate] = certify(mixed, grid(1, 3, 16, 16), n_estimate=100, seed=0)
    assert not certificate.exact, "one step in real arithmetic is enough"
    pure = SmoothedClassifier(compose(one), last, Brightness())
    assert certify(pure, grid(1, 3, 16, 16), n_estimate=100, seed=0)[0].exact


class Quarter(ars.Gaussian):
    def release(self, x, past, generator):
        return super().release(x, past, generator)


@pytest.mark.parametrize("step", [GeneralisedNormal(0.5, 2.0), Quarter(0.5)])
def test_noise_without_an_exact_mode_is_refused(step):
    smoothed = SmoothedClassifier(compose(step), last, Brightness())
    with pytest.raises(ValueError, match="exact mode"):
        Certifier(smoothed, CertifySettings(exact=True))


def test_a_subclass_cannot_claim_exact_mode():
    with pytest.raises(ValueError, match="release"):
        Quarter(0.5, exact=True)


def test_records_and_recipes_name_exact_mode_only_where_it_is_on(model):
    for exact in (False, True):
        [certificate] = certify(model, grid(1, 3, 16, 16), n_estimate=100, seed=0, exact=exact)
        record = Record(certificate, truth=0, subset="all", seconds=0.1)
        assert ("exact" in json.loads(record.to_json())) == exact
        assert Record.from_json(record.to_json()) == record
        recipe = replace(Recipe(), certify=CertifySettings(exact=exact))
        assert ("exact" in recipe.resolved()["certify"]) == exact
        assert recipe.identity == Recipe().identity


def test_a_request_that_exact_mode_cannot_meet_is_refused_before_anything_is_drawn():
    """456 draws certify this radius in exact mode, 451 in the default mode."""
    model = ars.cohen(Brightness().eval(), sigma=0.12)
    how = {"mode": "curve", "radii": (0.0052,), "n_estimate": 452, "alpha": 0.05}
    check_request(model, CertifySettings(**how), dim=3072)
    with pytest.raises(ValueError, match="452 draws cannot certify"):
        check_request(model, CertifySettings(**how, exact=True), dim=3072)
    unicr = SmoothedClassifier(compose(GeneralisedNormal(0.5, 2.5)), last, Brightness())
    with pytest.raises(ValueError, match="exact mode"):
        check_request(unicr, CertifySettings(exact=True), dim=3072)
    assert not model.mechanism.exact


def test_the_levels_of_a_step_function_are_found_in_a_few_dozen_steps():
    mechanism = compose(ars.Gaussian(0.12, exact=True))
    asked = []

    def radius_of(p):
        asked.append(p)
        return mechanism.radius(p, 1 - p, norm="linf", dim=3072)

    radii = [1 / 255, 0.0052]
    for radius, level in zip(radii, levels_of(radius_of, radii), strict=True):
        assert radius_of(level) >= radius
        assert radius_of(level - 1e-5) < radius
    assert len(asked) < 120


def test_exact_steps_are_not_trained_and_their_noise_is_not_recorded():
    model = SmoothedClassifier(
        compose(ars.Gaussian(0.3, exact=True)), last, nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    )
    with pytest.raises(ValueError, match="gradient"):
        Objective(model, "float32")
    with pytest.raises(ValueError, match="tape"):
        model(torch.rand(1, 3, 2, 2), Tape(torch.Generator()))
