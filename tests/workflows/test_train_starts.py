"""Trainings that begin with smaller images: their starts are trained first, shared, resumed and handed on."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from ars.data.settings import Data
from ars.recipes.recipe import Start, cell_name
from ars.recipes.start_sizes import start_folder, start_of
from ars.runs.lock import BusyError, TakenError, locked
from ars.runs.run import train_seconds, write_train_seconds
from ars.tensors import load_tensors
from ars.training.loop import Interrupted
from ars.training.settings import MaskPrior, Optimizer
from ars.workflows import train
from ars.workflows.load import load_run
from ars.workflows.train import train_run
from ars.workflows.weights import round_weights

from ..conftest import CPU, TINY

PER_EPOCH = 3  # how often an epoch asks whether to stop
METHODS = ["adaptive", "cohen", "static_mask"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / name).mkdir()
        for number in range(20):
            pixels = random.integers(256, size=(20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


@pytest.fixture
def recipe(photos):
    """Two epochs at size 16, after three of the classifier alone at size 8."""
    settings = dataclasses.replace(TINY.train, epochs=2, batch_size=8, checkpoint_minutes=0.0)
    data = Data("folder", root=str(photos), size=16, workers=0)
    return dataclasses.replace(TINY, data=data, train=settings, start=Start(size=8, epochs=3))


@pytest.fixture
def growing(recipe):
    """A recipe of size 24 that passes through 16, and that of the training at 16, which a sweep may have as a cell."""
    data = dataclasses.replace(recipe.data, size=24)
    larger = dataclasses.replace(recipe, data=data, start=Start(8, 3, through=(16,)))
    return larger, dataclasses.replace(recipe, start=Start(8, 3, through=(16,)))


@pytest.fixture
def followed(monkeypatch):
    """The weights that each training begins with, and by the name of its folder those that it ends with."""
    begins, ends, save = [], {}, train.save_tensors

    class Seen(train.Trainer):
        def __init__(self, model, *arguments, **options):
            begins.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
            super().__init__(model, *arguments, **options)

    def save_and_keep(path, tensors, about):
        ends[path.parent.name.rsplit("-", 1)[0]] = {name: tensor.clone() for name, tensor in tensors.items()}
        save(path, tensors, about)

    monkeypatch.setattr(train, "Trainer", Seen)
    monkeypatch.setattr(train, "save_tensors", save_and_keep)
    return begins, ends


def rounded(tensor):
    """As weights are handed on."""
    return tensor.bfloat16().to(tensor.dtype) if tensor.dtype == torch.float32 else tensor


def stop_after(times):
    asked = []

    def stop():
        asked.append(None)
        return len(asked) > times

    return stop


def same_weights(one, other):
    one, other = (load_tensors(folder / "model.safetensors")[0] for folder in (one, other))
    return all(torch.equal(one[name], other[name]) for name in one)


def cell_of(recipe, runs):
    return runs / cell_name(recipe.method, recipe.data.size, recipe.sigma, recipe.seed)


def test_a_start_that_another_process_trains_is_waited_for_wherever_it_is(growing, tmp_path):
    """Another process may hold it as a cell of its own, in another folder."""
    larger, cell = growing
    for needed in (larger, cell, start_of(cell)):
        with locked(tmp_path, "train", of=needed.identity), pytest.raises(BusyError):
            train_run(larger, tmp_path / "run", device=CPU, starts=tmp_path)
    assert not list(tmp_path.glob("[!.]*"))


@pytest.mark.parametrize("method", METHODS)
def test_a_method_grows_through_the_sizes_on_the_way_with_its_mask(growing, tmp_path, followed, method):
    epochs, (begins, ends) = [], followed
    larger, _ = growing
    chosen = dataclasses.replace(larger, method=method, start=Start(8, 3, through=(16, 32)))
    heard = {"report_start": lambda start, at: epochs.append((start.method, start.data.size, at.epoch))}
    assert train_run(chosen, tmp_path / "run", device=CPU, starts=tmp_path, **heard)
    assert epochs == [("cohen", 8, 1), ("cohen", 8, 2), ("cohen", 8, 3), (method, 16, 1), (method, 16, 2)]
    names = [f"start-k8-s{chosen.sigma:g}-seed0", f"start-{method}-k16-s{chosen.sigma:g}-seed0", "run"]
    assert list(ends) == names
    fresh, first, second = begins
    for name, tensor in second.items():
        if name.startswith("classifier.") or (method == "adaptive" and ".mask." in name):
            assert torch.equal(tensor, rounded(ends[names[1]][name])), name
    if method == "adaptive":
        masks = [name for name in second if ".mask." in name and name.endswith("weight")]
        assert any(not torch.equal(second[name], first[name]) for name in masks)  # and it had learned
    if method == "static_mask":
        assert any(".mask." in name and tensor.shape[-1] == 24 for name, tensor in second.items())
    handed_on = {name: rounded(tensor) for name, tensor in ends[names[0]].items()}
    assert all(torch.equal(tensor, handed_on[name]) for name, tensor in first.items() if "classifier." in name)
    assert any(not torch.equal(fresh[name], first[name]) for name in fresh if name.startswith("classifier."))


def test_a_learned_split_is_handed_on(growing, tmp_path, followed):
    larger, _ = growing
    settings = dataclasses.replace(larger.train, mask=Optimizer(lr=0.1))
    learned = dataclasses.replace(larger, share="learned", train=settings)
    assert train_run(learned, tmp_path / "larger", device=CPU, starts=tmp_path)
    name = "mechanism.steps.0.split.logit"
    (_, fresh, taken), ends = followed
    assert fresh[name] == 0
    assert taken[name] == rounded(ends[f"start-adaptive-k16-s{larger.sigma:g}-seed0"][name]) != 0


def test_a_shared_start_is_trained_by_one_process_at_a_time_and_counts_in_every_run(recipe, tmp_path):
    start = start_folder(tmp_path, start_of(recipe))
    with locked(start, "train"), pytest.raises(TakenError, match="another ars train"):
        train_run(recipe, tmp_path / "run", device=CPU, starts=tmp_path)
    assert train_run(start_of(recipe), start, device=CPU)
    write_train_seconds(start, 1000.0)
    assert train_run(recipe, tmp_path / "run", device=CPU, starts=tmp_path)
    assert train_seconds(tmp_path / "run") >= 1000


def test_runs_that_begin_alike_share_their_start(recipe, tmp_path):
    runs, seen = tmp_path / "runs", []
    settings = dataclasses.replace(recipe.train, mask=Optimizer(lr=0.5), mask_prior=MaskPrior(0.1))
    cells = {
        "ars": dataclasses.replace(recipe, share=0.3, train=settings),
        "cohen": dataclasses.replace(recipe, method="cohen"),
        "other": dataclasses.replace(recipe, method="cohen", sigma=0.3),
    }
    for name, cell in cells.items():
        heard = {"report_start": lambda *news, name=name: seen.append(name)}
        assert train_run(cell, runs / name, device=CPU, starts=runs, **heard)
    assert seen == ["ars"] * 3 + ["other"] * 3
    assert len(list(runs.glob("start-k8-s0.75-seed0-*"))) == len(list(runs.glob("start-k8-s0.3-seed0-*"))) == 1
    assert train_run(cells["cohen"], tmp_path / "alone", device=CPU)
    assert same_weights(tmp_path / "alone", runs / "cohen")
    assert not (runs / "cohen" / "start").exists()


# within the classifier's start, in that at size 16, and after both, when none of them is needed any more
@pytest.mark.parametrize(("asks", "within"), [(5, "start/start"), (12, "start"), (5 * PER_EPOCH + 4, "")])
def test_an_interrupted_training_resumes_in_the_start_that_it_was_in(growing, tmp_path, asks, within):
    larger, _ = growing
    assert train_run(larger, tmp_path / "whole", device=CPU)
    run, heard = tmp_path / "run", []
    with pytest.raises(Interrupted):
        train_run(larger, run, device=CPU, stop=stop_after(asks))
    assert [path.parent for path in run.rglob("checkpoint.safetensors")] == [run / within]
    spent = 0.0 if within else train_seconds(run / "start")
    if not within:
        shutil.rmtree(run / "start")
    assert train_run(larger, run, device=CPU, report_start=lambda *news: heard.append(news))
    assert bool(heard) == bool(within)
    assert same_weights(tmp_path / "whole", run)
    assert not (run / "start" / "model.safetensors").exists()  # the trained model holds what became of it
    assert load_run(run, CPU)[0].start == larger.start
    assert train_seconds(run) > (train_seconds(run / "start") if within else spent) > 0


@pytest.mark.parametrize("rounds", [True, False])
def test_a_cell_of_a_sweep_is_the_start_of_another_rounded_or_not(growing, tmp_path, rounds):
    larger, smaller = growing
    runs, heard = tmp_path / "runs", []
    cell = cell_of(smaller, runs)
    train_run(smaller, cell, device=CPU, starts=runs)
    if rounds:
        round_weights(cell / "model.safetensors")
    hear = {"report_start": lambda start, at: heard.append(start.data.size)}
    assert train_run(larger, runs / "larger", device=CPU, starts=runs, **hear)
    assert heard == []
    assert not list(runs.glob("start-adaptive-*"))
    assert train_run(larger, tmp_path / "alone", device=CPU)
    assert same_weights(runs / "larger", tmp_path / "alone")
    assert train_seconds(runs / "larger") >= train_seconds(cell)


def test_a_trained_start_becomes_the_cell_and_is_not_trained_again(growing, tmp_path):
    larger, smaller = growing
    assert train_run(larger, tmp_path / "larger", device=CPU, starts=tmp_path)
    [start] = tmp_path.glob("start-adaptive-*")
    kept, cell, heard = (start / "model.safetensors").read_bytes(), cell_of(smaller, tmp_path), []
    assert train_run(smaller, tmp_path / "labelled", device=CPU, starts=tmp_path)  # with a label, it has its own
    assert not train_run(smaller, cell, device=CPU, starts=tmp_path, report=heard.append)
    assert heard == []
    assert not start.exists()
    assert (cell / "model.safetensors").read_bytes() == kept
    assert load_run(cell, CPU)[0] == smaller
    assert start_folder(tmp_path, start_of(larger)) == cell  # where others find it


@pytest.mark.parametrize("first", ["smaller", "larger"])
def test_what_was_begun_as_cell_or_start_resumes_as_the_other(growing, tmp_path, first):
    larger, smaller = growing
    runs, alone, heard = tmp_path / "runs", tmp_path / "alone", []
    assert train_run(larger, alone / "larger", device=CPU, starts=alone)
    cells = {"smaller": (smaller, cell_of(smaller, runs)), "larger": (larger, cell_of(larger, runs))}
    recipe, folder = cells[first]
    other, where = cells["larger" if first == "smaller" else "smaller"]
    with pytest.raises(Interrupted):  # after the classifier's start, in the second epoch at 16
        train_run(recipe, folder, device=CPU, starts=runs, stop=stop_after(3 * PER_EPOCH + 4))
    hear = {"report": lambda at: heard.append(at.epoch), "report_start": lambda _, at: heard.append(-at.epoch)}
    assert train_run(other, where, device=CPU, starts=runs, **hear)
    assert heard == ([-2, 1, 2] if first == "smaller" else [2])
    train_run(recipe, folder, device=CPU, starts=runs)
    assert not list(runs.glob("start-adaptive-*"))
    assert not list(runs.rglob("checkpoint.safetensors"))
    assert same_weights(alone / "larger", cells["larger"][1])


def test_a_run_of_another_recipe_is_neither_start_nor_cell(growing, tmp_path):
    larger, smaller = growing
    cell, heard = cell_of(smaller, tmp_path), []
    other = dataclasses.replace(smaller, train=dataclasses.replace(smaller.train, epochs=1))
    train_run(other, cell, device=CPU, starts=tmp_path)
    hear = {"report_start": lambda start, at: heard.append((start.data.size, at.epoch))}
    assert train_run(larger, tmp_path / "larger", device=CPU, starts=tmp_path, **hear)
    assert heard == [(16, 1), (16, 2)]
    (cell / "recipe.yaml").write_text("method: of another version")
    assert start_folder(tmp_path, start_of(larger)).name.startswith("start-adaptive-k16")


def test_a_start_that_cannot_be_trained_leaves_no_folder(recipe, tmp_path):
    """Its images are smaller than what is pasted onto them."""
    for part in ("train", "test"):
        (tmp_path / "scenes" / part).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (20, 20), (number, 0, 0)).save(tmp_path / "scenes" / part / f"{number}.png")
    data = dataclasses.replace(recipe.data, backgrounds=str(tmp_path / "scenes"), pasted=12)
    with pytest.raises(ValueError, match="12"):
        train_run(dataclasses.replace(recipe, data=data, start=Start(8, 3)), tmp_path / "run", device=CPU)
    assert not (tmp_path / "run").exists()
