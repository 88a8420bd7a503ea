import dataclasses
import json
import shutil
from typing import get_args

import numpy as np
import pytest
import torch

from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.fingerprint import fingerprint
from ars.experiments.recipe import Classifier, Method, RecipeError
from ars.experiments.run import load_run, load_without_data
from ars.experiments.stages import save_stages
from ars.experiments.training import train_run
from ars.report.errors import ReportError
from ars.training.checkpoint import CheckpointError

from .conftest import CPU, TINY


def test_a_run_folder_holds_all_that_a_report_needs(trained):
    names = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert names == {
        ".train.lock",
        "recipe.yaml",
        "benchmark.json",
        "environment.json",
        "train.jsonl",
        "timing.json",
        "model.safetensors",
        "certify/test/settings.json",
        "certify/test/environment.json",
        "certify/test/shard-00000.jsonl",
        "certify/test/stages.npz",
    }
    assert json.loads((trained / "benchmark.json").read_text())["title"] == "digits on photographs"


def test_the_loaded_model_is_the_trained_one_and_in_eval_mode(trained):
    recipe, benchmark, model = load_run(trained, CPU)
    assert recipe == TINY
    assert not any(module.training for module in model.modules())
    x, _ = benchmark.examples("test", [0])
    logits = model(x, torch.Generator().manual_seed(0))
    again = load_run(trained, CPU)[2](x, torch.Generator().manual_seed(0))
    assert torch.equal(logits, again)


@pytest.mark.parametrize("changes", [*({"method": it} for it in get_args(Method)), {"share": "learned"}], ids=str)
def test_without_its_data_the_model_is_the_very_same(tiny, tmp_path, monkeypatch, changes):
    folder = tmp_path / "run"
    train_run(tiny(train=dataclasses.replace(TINY.train, max_steps=1), **changes), folder, device=CPU)
    _, benchmark, model = load_run(folder, CPU)
    if changes.get("method") != "sukenik":
        monkeypatch.setattr("ars.experiments.keeping.open_benchmark", lambda *_: pytest.fail("the data was opened"))
    inputs, alone = load_without_data(folder, CPU)
    assert (inputs.shape, list(inputs.class_names)) == (benchmark.shape, list(benchmark.class_names))
    assert fingerprint(alone) == fingerprint(model)
    assert not any(module.training for module in alone.modules())
    image = benchmark.examples("test", [0])[0]
    draw = [it.localise(image)[0](image, torch.Generator().manual_seed(0)) for it in (model, alone)]
    assert torch.equal(*draw)


def test_a_classifier_of_ones_own_needs_no_data_either(tiny, tmp_path, monkeypatch):
    (tmp_path / "own_network.py").write_text(
        "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = Classifier(factory="own_network:make")
    train_run(tiny(classifier=own, train=dataclasses.replace(TINY.train, max_steps=1)), tmp_path / "run", device=CPU)
    alone = load_without_data(tmp_path / "run", CPU, classifier="own_network:make")[1]
    assert fingerprint(alone) == fingerprint(load_run(tmp_path / "run", CPU, classifier="own_network:make")[2])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "has no readable benchmark.json"),
        ("{", "cannot be parsed"),
        ('{"title": "x", "class_names": []}', "lacks 'shape'"),
        ('{"title": "x", "class_names": [], "shape": [3, 24]}', "garbles a field"),
    ],
)
def test_what_is_wrong_with_the_description_of_the_inputs_is_told(trained, tmp_path, content, words):
    copy = shutil.copytree(trained, tmp_path / "copy")
    (copy / "benchmark.json").unlink()
    if content is not None:
        (copy / "benchmark.json").write_text(content)
    with pytest.raises(ReportError, match=words):
        load_without_data(copy, CPU)


def test_weights_of_another_recipe_are_refused(trained, tiny, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("model.safetensors", "benchmark.json"):
        (other / name).write_bytes((trained / name).read_bytes())
    (other / "recipe.yaml").write_text(tiny(method="cohen").to_yaml())
    with pytest.raises(CheckpointError, match="was made by another recipe"):
        load_run(other, CPU)
    with pytest.raises(RecipeError, match="is not a run folder"):
        load_run(tmp_path, CPU)


def test_a_run_that_was_packed_without_its_weights_says_so(trained, tmp_path):
    packed = shutil.copytree(trained, tmp_path / "packed")
    (packed / "certify" / "test" / "records.jsonl.gz").touch()
    load_run(packed, CPU)
    (packed / "model.safetensors").unlink()
    with pytest.raises(RecipeError, match=r"packed without its weights; train it again \(ars train .*\.yaml --out"):
        load_run(packed, CPU)


def test_more_examples_than_there_are_is_refused_before_anything_is_drawn(trained):
    with pytest.raises(ValueError, match=r"so 1000 are too many; set certify\.examples to 300"):
        certify_run(Request(trained, dataclasses.replace(TINY.certify, examples=1000), name="x"), device=CPU)
    with pytest.raises(ValueError, match="n_estimate=3 cannot certify anything"):
        certify_run(Request(trained, dataclasses.replace(TINY.certify, n_estimate=3), name="x"), device=CPU)
    assert not (trained / "certify" / "x").exists()


def test_stages_show_the_pipeline_of_the_certified_images(trained):
    with np.load(trained / "certify" / "test" / "stages.npz", allow_pickle=False) as stages:
        assert stages["index"].tolist() == [0, 1, 2]
        assert stages["input"].shape == (3, 3, 24, 24)
        mask = stages["weight_2"]
        assert mask.shape == (3, 1, 24, 24)
        assert np.allclose(stages["masked_2"], mask * stages["input"])
        assert np.all(stages["weight_1"] == 1)
        # the average is the inverse-variance weighting of both releases
        s1, s2 = TINY.sigma * 2**0.5, TINY.sigma * 2**0.5 * np.sqrt((mask**2).mean(axis=(1, 2, 3), keepdims=True))
        expected = (stages["value_1"] / s1**2 + mask * stages["value_2"] / s2**2) / (1 / s1**2 + mask**2 / s2**2)
        assert np.allclose(stages["average"], expected, atol=1e-4)


def test_stages_have_the_noise_of_the_certifications_seed(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    path = save_stages(Request(run, dataclasses.replace(TINY.certify, seed=5)), device=CPU, images=2)
    _, benchmark, model = load_run(run, CPU)
    _, average = model.stages(benchmark.examples("test", [0, 1])[0], torch.Generator().manual_seed(5))
    with np.load(path) as stages:
        assert np.array_equal(stages["average"], average.detach().numpy())


def test_more_stages_than_images_are_cut_to_the_subset(trained, tmp_path):

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    save_stages(Request(copy, TINY.certify, name="test"), device=CPU, images=100)
    with np.load(copy / "certify" / "test" / "stages.npz") as stages:
        assert len(stages["index"]) == 6
