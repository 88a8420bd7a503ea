import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from ars.cli import main
from ars.cli.errors import told
from ars.experiments import training as training_module
from ars.experiments.alone import TakenError
from ars.experiments.recipe import RecipeError
from ars.experiments.training import train_run
from ars.training.checkpoint import CheckpointError, load_tensors, save_tensors
from ars.training.loop import Interrupted
from ars.training.ranks import Ranks
from ars.training.settings import SmoothAdv

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
    assert [path.name for path in (tmp_path / "run").glob("*.safetensors")] == ["model.safetensors"]


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


def test_the_seed_of_the_recipe_is_that_of_training_and_validation(tiny, tmp_path, monkeypatch):
    seeds = []
    monkeypatch.setattr("ars.training.loop.step_seed", lambda seed, step, **how: seeds.append(seed) or seed)
    recipe = tiny(seed=3, train=dataclasses.replace(TINY.train, max_steps=1))
    assert train_run(recipe, tmp_path / "run", device=CPU)
    assert set(seeds) == {3}


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_adversarial_examples_are_made_in_the_norm_that_will_be_certified(tiny, tmp_path, monkeypatch, norm):
    norms = []

    def attacked(loss, images, **how):
        norms.append(how["norm"])
        return images

    monkeypatch.setattr("ars.training.objective.attack", attacked)
    settings = dataclasses.replace(TINY.train, max_steps=1, smoothadv=SmoothAdv(epsilon=0.1))
    recipe = tiny(method="cohen", train=settings, certify=dataclasses.replace(TINY.certify, norm=norm))
    assert train_run(recipe, tmp_path / "run", device=CPU)
    assert norms == [norm]


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
    with pytest.raises(NotADirectoryError) as caught:
        train_run(tiny(), tmp_path / "file" / "run", device=CPU)
    advice = "a file is in the way: move it, or name another place"
    assert told(caught.value) == f"{tmp_path / 'file' / 'run'}: Not a directory; {advice}"


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_trainings_do_not_share_a_folder(tiny, tmp_path, capsys):
    """The second is told, nothing is harmed, and once the first was killed another goes on from its checkpoint."""
    run, seen = tmp_path / "run", []
    options = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256", "--device=cpu"]
    options += ["--out", str(run), "--train.epochs=5000", "--train.precision=float32", "--train.checkpoint_minutes=0"]
    first = subprocess.Popen([sys.executable, "-m", "ars.cli", "train", *options], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (run / "checkpoint.safetensors").exists():
            assert time.monotonic() < deadline
            assert first.poll() is None
            time.sleep(0.1)
        first.send_signal(signal.SIGSTOP)
        before = files(run)
        assert main(["train", *options]) == 2
        told_of = f"ars: another ars train works in {run}; wait until it ends, or give another --out\n"
        assert capsys.readouterr().err == told_of
        assert files(run) == before
    finally:
        first.kill()
        first.wait()
    train = dataclasses.replace(TINY.train, epochs=5000, checkpoint_minutes=0.0)
    with pytest.raises(Interrupted):
        train_run(tiny(train=train), run, device=CPU, watch=seen.append, stop=lambda: bool(seen))
    assert seen[0].step > 1


def test_what_another_process_trained_meanwhile_is_kept(trained, tiny, tmp_path, monkeypatch):
    whole = (trained / "model.safetensors").read_bytes()
    monkeypatch.setattr(training_module, "check_batch", lambda *_: shutil.copytree(trained, tmp_path / "run"))
    assert not train_run(tiny(), tmp_path / "run", device=CPU)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole
    monkeypatch.setattr(training_module, "check_batch", lambda *_: shutil.copytree(trained, tmp_path / "other"))
    with pytest.raises(RecipeError, match="holds a run of another recipe"):
        train_run(tiny(sigma=0.1), tmp_path / "other", device=CPU)


def test_of_several_processes_the_first_holds_the_folder_and_all_hear_that_it_is_taken(tiny, tmp_path):
    class Second(Ranks):
        rank, size = 1, 2

        def gather(self, values):
            return [[1.0], list(values)]

    with pytest.raises(TakenError, match="run is taken, as the first process says"):
        train_run(tiny(), tmp_path / "run", device=CPU, ranks=Second())
    assert not (tmp_path / "run").exists()


def test_a_training_that_is_refused_leaves_no_folder(tiny, tmp_path):
    recipe = tiny(train=dataclasses.replace(TINY.train, batch_size=10**6))
    with pytest.raises(ValueError, match="batch_size=1000000 is above the"):
        train_run(recipe, tmp_path / "run", device=CPU)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_no_model_could_be_saved_in_is_refused_before_training(tiny, tmp_path):
    with pytest.raises(TakenError, match=r"is not UTF-8, so no model could be saved; give another --out"):
        train_run(tiny(), tmp_path / "caf\udce9", device=CPU)
    assert list(tmp_path.iterdir()) == []
