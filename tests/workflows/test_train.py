"""Training into a run folder: resumed after a stop or a kill, and never mixed with anything else."""

import dataclasses
import json
import shutil
import signal
import time

import pytest

from ars.data.benchmark import open_benchmark
from ars.recipes.recipe import RecipeError
from ars.runs.lock import TakenError
from ars.tensors import CheckpointError, load_tensors, save_tensors
from ars.training.loop import Interrupted
from ars.training.progress import Progress
from ars.training.ranks import Ranks
from ars.training.settings import SmoothAdv
from ars.workflows.train import scalars, train_run

from ..conftest import CPU, TINY, contents

# saved at every opportunity: after the steps 1, 3, ... and at the end of each epoch
OFTEN = dataclasses.replace(TINY, train=dataclasses.replace(TINY.train, epochs=2, checkpoint_minutes=0.0))
ONE_STEP = dataclasses.replace(TINY.train, max_steps=1)


def test_a_trained_run_is_not_trained_again(trained):
    before = (trained / "model.safetensors").read_bytes()
    assert not train_run(TINY, trained, device=CPU)
    assert (trained / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-7], lambda whole: whole[:100], lambda whole: b"", bytes.lower]
)
def test_a_run_whose_model_is_damaged_does_not_count_as_trained(trained, tmp_path, damage):
    run = shutil.copytree(trained, tmp_path / "run")
    damaged = damage((run / "model.safetensors").read_bytes())
    (run / "model.safetensors").write_bytes(damaged)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        train_run(TINY, run, device=CPU)
    assert (run / "model.safetensors").read_bytes() == damaged


def test_a_training_that_was_stopped_resumes(tiny, tmp_path):
    seen, folder = [], tmp_path / "run"
    with pytest.raises(Interrupted):
        train_run(tiny(), folder, device=CPU, watch=seen.append, stop=lambda: bool(seen))
    assert not (folder / "model.safetensors").exists()
    assert [at.step for at in seen] == [1, 2]
    tensors, about = load_tensors(folder / "checkpoint.safetensors")
    assert about["seconds"] > 0
    save_tensors(folder / "checkpoint.safetensors", tensors, {**about, "seconds": 1000.0})
    seen.clear()
    began = time.monotonic()
    assert train_run(tiny(), folder, device=CPU, watch=seen.append)
    assert (seen[0].step, seen[-1].step, seen[-1].steps) == (3, 5, 5)
    assert seen[-1].seconds_left == 0
    assert [path.name for path in folder.glob("*.safetensors")] == ["model.safetensors"]
    seconds = json.loads((folder / "timing.json").read_text())["train_seconds"]  # of both sessions
    assert 1000 <= seconds <= 1000 + time.monotonic() - began + 0.05


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert train_run(OFTEN, folder, device=CPU)
    return folder


# three files are written before the first step; then checkpoints and, at the end of an epoch, a line of the log
@pytest.mark.parametrize(
    ("call", "moment"), [(("replace", False), 6), pytest.param(("fsync", True), 13, marks=pytest.mark.slow)]
)
def test_a_killed_training_ends_in_the_same_weights(undisturbed, tmp_path, killed, call, moment):
    run = tmp_path / "run"
    assert killed(call, moment, train_run, OFTEN, run, device=CPU) == -signal.SIGKILL
    assert (run / "checkpoint.safetensors").exists()
    assert not (run / "model.safetensors").exists()
    seen = []
    assert train_run(OFTEN, run, device=CPU, watch=seen.append)
    assert seen[0].step > 1  # it resumed, and did not begin again
    assert (run / "model.safetensors").read_bytes() == (undisturbed / "model.safetensors").read_bytes()
    assert len((run / "train.jsonl").read_text().splitlines()) == 2


def test_the_seed_of_the_recipe_is_that_of_training_and_validation(tiny, tmp_path, monkeypatch):
    seeds = []
    monkeypatch.setattr("ars.training.loop.step_seed", lambda seed, step, **how: seeds.append(seed) or seed)
    assert train_run(tiny(seed=3, train=ONE_STEP), tmp_path / "run", device=CPU)
    assert set(seeds) == {3}


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_adversarial_examples_are_made_in_the_norm_that_will_be_certified(tiny, tmp_path, monkeypatch, norm):
    norms = []

    def attacked(loss, images, **how):
        norms.append(how["norm"])
        return images

    monkeypatch.setattr("ars.training.loss.attack", attacked)
    settings = dataclasses.replace(ONE_STEP, smoothadv=SmoothAdv(epsilon=0.1))
    recipe = tiny(method="cohen", train=settings, certify=dataclasses.replace(TINY.certify, norm=norm))
    assert train_run(recipe, tmp_path / "run", device=CPU)
    assert norms == [norm]


def test_a_folder_whose_recipe_was_never_written_is_used(tiny, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".recipe.yaml.1234.part").write_text("method:")
    assert train_run(tiny(train=ONE_STEP), tmp_path / "run", device=CPU)


def test_a_folder_of_another_recipe_or_another_purpose_is_refused(trained, tiny, tmp_path):
    with pytest.raises(RecipeError, match="another recipe"):
        train_run(tiny(sigma=0.1), trained, device=CPU)
    (tmp_path / "thesis.txt").write_text("not a run")
    with pytest.raises(RecipeError, match="not a run folder"):
        train_run(tiny(), tmp_path, device=CPU)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(NotADirectoryError):
        train_run(tiny(), tmp_path / "thesis.txt" / "run", device=CPU)


def test_two_trainings_do_not_share_a_folder(tiny, tmp_path):
    """The second is refused while the first trains, and nothing is harmed."""
    run, refused = tmp_path / "run", []

    def begin_another(at):
        before = contents(run)
        with pytest.raises(TakenError, match="another ars train"):
            train_run(tiny(), run, device=CPU)
        assert contents(run) == before
        refused.append(at.step)

    assert train_run(tiny(), run, device=CPU, watch=begin_another)
    assert refused[0] == 1


def test_what_another_process_trained_meanwhile_is_kept(trained, tiny, tmp_path):
    def copy_to(folder):
        def open_data(*what):
            shutil.copytree(trained, folder)
            return open_benchmark(*what)

        return open_data

    whole = (trained / "model.safetensors").read_bytes()
    assert not train_run(tiny(), tmp_path / "run", device=CPU, open_data=copy_to(tmp_path / "run"))
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole
    with pytest.raises(RecipeError, match="another recipe"):
        train_run(tiny(sigma=0.1), tmp_path / "other", device=CPU, open_data=copy_to(tmp_path / "other"))


def test_of_several_processes_the_first_holds_the_folder_and_all_learn_that_it_is_taken(tiny, tmp_path):
    class Second(Ranks):
        rank, size = 1, 2

        def gather(self, values):
            return [[1.0], list(values)]

    with pytest.raises(TakenError, match="taken"):
        train_run(tiny(), tmp_path / "run", device=CPU, ranks=Second())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "batch", "error", "words"),
    [("run", 10**6, ValueError, "batch_size=1000000"), ("caf\udce9", 256, TakenError, "UTF-8")],
)
def test_a_training_that_is_refused_leaves_no_folder(tiny, tmp_path, name, batch, error, words):
    with pytest.raises(error, match=words):
        train_run(tiny(train=dataclasses.replace(TINY.train, batch_size=batch)), tmp_path / name, device=CPU)
    assert list(tmp_path.iterdir()) == []


def progress(epoch, loss):
    return Progress(epoch, 3, loss, 0.5, 0.4, 0.25, None, 100.0, None)  # a method with one step has no share


def test_epochs_become_curves_and_repeated_epochs_replace_the_old_ones(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for epochs in ([(1, 2.0), (2, 1.5)], [(2, 1.25), (3, 1.0)]):  # interrupted after the second epoch was written
        with scalars(tmp_path) as write:
            for epoch, loss in epochs:
                write(progress(epoch, loss))
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 2.0), (2, 1.25), (3, 1.0)]
    assert "epoch" not in events.Tags()["scalars"]
    assert "validation_accuracy" in events.Tags()["scalars"]


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("ars.workflows.train.find_spec", lambda name: None)
    with scalars(tmp_path) as write:
        write(progress(1, 2.0))
    assert list(tmp_path.iterdir()) == []
