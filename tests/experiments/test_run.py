import dataclasses
import json
import shutil
import time

import numpy as np
import pytest
import torch

from ars.certification.writing import WriteError
from ars.experiments.certifying import certify_run
from ars.experiments.recipe import RecipeError
from ars.experiments.run import load_run, train_run
from ars.experiments.stages import save_stages
from ars.training.checkpoint import CheckpointError, load_tensors, save_tensors
from ars.training.loop import Interrupted

from .conftest import CPU, TINY


def test_a_run_folder_holds_all_that_a_report_needs(trained):
    names = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert names == {
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


def test_a_trained_run_is_not_trained_again(trained):
    before = (trained / "model.safetensors").read_bytes()
    assert not train_run(TINY, trained, device=CPU)
    assert (trained / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-7], lambda whole: whole[:100], lambda whole: b"", bytes.lower]
)
def test_a_trained_run_whose_model_is_damaged_is_not_called_trained(trained, tmp_path, damage):
    run = shutil.copytree(trained, tmp_path / "run")
    damaged = damage((run / "model.safetensors").read_bytes())
    (run / "model.safetensors").write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged .*; put a copy in its place, or train"):
        train_run(TINY, run, device=CPU)
    assert (run / "model.safetensors").read_bytes() == damaged


def test_training_that_was_stopped_goes_on(tiny, tmp_path):
    seen = []
    with pytest.raises(Interrupted):
        train_run(tiny(), tmp_path / "run", device=CPU, watch=seen.append, stop=lambda: bool(seen))
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert [at.step for at in seen] == [1, 2]
    seen.clear()
    assert train_run(tiny(), tmp_path / "run", device=CPU, watch=seen.append)
    assert (seen[0].step, seen[-1].step, seen[-1].steps) == (3, 5, 5)
    assert seen[-1].seconds_left == 0


def test_training_seconds_add_up_over_sessions(tiny, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train_run(tiny(), folder, device=CPU, stop=lambda: True)
    tensors, about = load_tensors(folder / "checkpoint.safetensors")
    assert about["seconds"] > 0
    save_tensors(folder / "checkpoint.safetensors", tensors, {**about, "seconds": 1000.0})
    began = time.monotonic()
    train_run(tiny(), folder, device=CPU)
    seconds = json.loads((folder / "timing.json").read_text())["train_seconds"]
    assert 1000 <= seconds <= 1000 + time.monotonic() - began + 0.05


def test_a_folder_whose_recipe_was_never_written_is_taken_up(tiny, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".recipe.yaml.1234.part").write_text("method:")
    assert train_run(tiny(), tmp_path / "run", device=CPU)


def test_a_folder_of_another_recipe_or_another_purpose_is_refused(trained, tiny, tmp_path):
    with pytest.raises(RecipeError, match="holds a run of another recipe"):
        train_run(tiny(sigma=0.1), trained, device=CPU)
    (tmp_path / "thesis.txt").write_text("not a run")
    with pytest.raises(RecipeError, match="exists and is not a run folder"):
        train_run(tiny(), tmp_path, device=CPU)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_made_is_named_with_a_way_out(tiny, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WriteError, match=r"cannot write .*run/recipe.yaml: Not a directory; .*the same command"):
        train_run(tiny(), tmp_path / "file" / "run", device=CPU)


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
        certify_run(trained, dataclasses.replace(TINY.certify, examples=1000), device=CPU, name="x")
    with pytest.raises(ValueError, match="n_estimate=3 cannot certify anything"):
        certify_run(trained, dataclasses.replace(TINY.certify, n_estimate=3), device=CPU, name="x")
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
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    save_stages(copy, TINY.certify, device=CPU, name="test", images=100)
    with np.load(copy / "certify" / "test" / "stages.npz") as stages:
        assert len(stages["index"]) == 6
