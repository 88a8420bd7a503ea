import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch

from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import RecipeError
from ars.experiments.run import load_run
from ars.experiments.stages import save_stages
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


def test_weights_of_another_recipe_are_refused(trained, tiny, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    (other / "recipe.yaml").write_text(tiny(method="cohen").to_yaml())
    with pytest.raises(CheckpointError, match="was made by another recipe"):
        load_run(other, CPU)
    with pytest.raises(RecipeError, match="is not a run folder"):
        load_run(tmp_path, CPU)


def test_more_examples_than_there_are_is_refused_before_anything_is_drawn(trained):
    with pytest.raises(ValueError, match="so 1000 are too many; take --examples"):
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


def test_more_stages_than_images_are_cut_to_the_subset(trained, tmp_path):

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    save_stages(Request(copy, TINY.certify, name="test"), device=CPU, images=100)
    with np.load(copy / "certify" / "test" / "stages.npz") as stages:
        assert len(stages["index"]) == 6
