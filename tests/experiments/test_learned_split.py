"""A learned split from the recipe to the report."""

import dataclasses
import json

import pytest
import torch

from ars.certification.procedure import certify
from ars.experiments.build import build_benchmark, build_model
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.fingerprint import fingerprint
from ars.experiments.run import load_run
from ars.experiments.training import train_run
from ars.report import write_report
from ars.smoothing import Gaussian, MaskedGaussian
from ars.theory import ars_radius_linf
from ars.training.checkpoint import load_model, load_tensors

from .conftest import CPU, TINY


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Two seeds, trained and certified in float32."""
    folders = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp("learned") / f"seed-{seed}"
        assert train_run(dataclasses.replace(TINY, share="learned", seed=seed), folder, device=CPU)
        certify_run(Request(folder, TINY.certify), device=CPU)
        folders.append(folder)
    return folders


def test_training_moves_the_share_stores_it_and_certifies_with_it(learned):
    folder = learned[0]
    logit = float(load_tensors(folder / "model.safetensors")[0]["mechanism.steps.0.split.logit"])
    assert logit != 0
    share = 0.02 + 0.96 / (1 + torch.tensor(-logit, dtype=torch.float64).exp().item())
    assert json.loads((folder / "train.jsonl").read_text())["share"] == pytest.approx(share, abs=1e-6)
    _, _, model = load_run(folder, CPU)
    assert model.mechanism.sigmas[0] == pytest.approx(TINY.sigma / share**0.5, rel=1e-9)
    assert [type(step) for step in model.mechanism.steps] == [Gaussian, MaskedGaussian]
    assert not any(name.endswith("logit") for name, _ in model.named_parameters())
    records = [json.loads(line) for line in (folder / "certify/test/shard-00000.jsonl").read_text().splitlines()]
    assert len(records) == 6
    for record in records:
        assert tuple(record["sigmas"]) == model.mechanism.sigmas


def test_radii_are_those_of_the_whole_budget(learned):
    model = load_run(learned[0], CPU)[2]
    dim = 3 * 24 * 24
    assert model.radius(0.9, 0.1, norm="linf", dim=dim) == pytest.approx(
        ars_radius_linf([TINY.sigma], dim, 0.9, 0.1), rel=1e-9
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_before_it_is_settled_the_model_certifies_to_the_same(learned, precision):
    recipe, benchmark, settled = load_run(learned[0], CPU)
    model = build_model(recipe, benchmark, CPU).eval()
    load_model(model, load_tensors(learned[0] / "model.safetensors")[0], learned[0])
    images, _ = benchmark.examples("test", range(4))
    how = {"n_select": 100, "n_estimate": 400, "indices": range(4), "seed": 0, "precision": precision}
    one, other = (certify(it, images, **how) for it in (model, settled))
    for a, b in zip(one, other, strict=True):
        assert a.sigmas == b.sigmas
        assert sum(abs(x - y) for x, y in zip(a.counts, b.counts, strict=True)) <= 4  # noise scales differ in an ulp


def test_models_that_differ_in_the_split_alone_have_other_fingerprints():
    recipe = dataclasses.replace(TINY, share="learned")
    benchmark = build_benchmark(recipe, CPU)
    one, other = (build_model(recipe, benchmark, CPU) for _ in range(2))
    assert fingerprint(one) == fingerprint(other)
    with torch.no_grad():
        other.mechanism.steps[0].split.logit.fill_(1e-3)
    assert fingerprint(one) != fingerprint(other)


def test_models_that_differ_in_the_noises_shape_alone_have_other_fingerprints():
    recipe = dataclasses.replace(TINY, method="unicr", beta=2.25)
    benchmark = build_benchmark(recipe, CPU)
    made = [build_model(it, benchmark, CPU) for it in (recipe, recipe, dataclasses.replace(recipe, beta=1.5))]
    one, same, other = map(fingerprint, made)
    assert one == same != other


def test_seeds_with_splits_of_their_own_are_reported_together(learned, tmp_path):
    write_report(learned, tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    for folder in learned:
        assert ", ".join(f"{sigma:.4g}" for sigma in load_run(folder, CPU)[2].mechanism.sigmas) in page


def test_stopping_early_works_with_a_learned_split(learned):
    settings = dataclasses.replace(TINY.certify, mode="radius", n_estimate=2000, tolerance=0.3)
    records = certify_run(Request(learned[0], settings, name="radius"), device=CPU)
    assert len(records) == 6
    made = [record.certificate for record in records]
    assert min(it.n_estimate for it in made) < 2000
    assert any(it.label is not None for it in made)
    sigmas = load_run(learned[0], CPU)[2].mechanism.sigmas
    for it in made:
        assert it.sigmas == sigmas
        if it.label is not None:
            assert it.radius == pytest.approx(ars_radius_linf(sigmas, it.dim, it.p_lower, it.p_upper), rel=1e-9)
