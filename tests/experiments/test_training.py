import json
import shutil
import time

import pytest

from ars.certification.writing import WriteError
from ars.experiments.recipe import RecipeError
from ars.experiments.training import train_run
from ars.training.checkpoint import CheckpointError, load_tensors, save_tensors
from ars.training.loop import Interrupted

from .conftest import CPU, TINY


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
