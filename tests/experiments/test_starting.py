import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from ars.data.errors import DataError
from ars.data.settings import Data
from ars.experiments.alone import TakenError, alone_in
from ars.experiments.recipe import Classifier, RecipeError, Start, cell_name
from ars.experiments.recipe_file import read_recipe
from ars.experiments.run import load_run
from ars.experiments.starting import epochs_in_all, start_folder, start_of, starts_of
from ars.experiments.timing import train_seconds, write_train_seconds
from ars.experiments.training import train_run
from ars.experiments.weights import round_weights
from ars.training.checkpoint import load_tensors
from ars.training.loop import Interrupted
from ars.training.settings import MaskPrior, Optimizer

from .conftest import CPU, TINY


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
    train = dataclasses.replace(TINY.train, epochs=2, batch_size=8, checkpoint_minutes=0.0)
    data = Data("folder", root=str(photos), size=16, workers=0)
    return dataclasses.replace(TINY, data=data, train=train, start=Start(size=8, epochs=3))


def rounded(tensor):
    """As weights are handed on."""
    return tensor.bfloat16().to(tensor.dtype) if tensor.dtype == torch.float32 else tensor


def test_a_shared_start_is_trained_by_one_process_at_a_time(recipe, tmp_path):
    start = start_folder(tmp_path, start_of(recipe))
    with alone_in(start, "train"), pytest.raises(TakenError, match=f"another ars train works in {start}; wait until"):
        train_run(recipe, tmp_path / "run", device=CPU, starts=tmp_path)
    assert train_run(recipe, tmp_path / "run", device=CPU, starts=tmp_path)


@pytest.mark.parametrize("method", ["adaptive", "cohen", "static_mask"])
def test_the_classifier_begins_as_its_start_ended(recipe, tmp_path, monkeypatch, method):
    seen, starts = [], []
    from ars.experiments import training as module

    class Seen(module.Trainer):
        def __init__(self, model, *arguments, **options):
            seen.append({name: tensor.clone() for name, tensor in model.classifier.state_dict().items()})
            super().__init__(model, *arguments, **options)

    kept = []
    monkeypatch.setattr(module, "Trainer", Seen)
    saved = module.save_tensors

    def save(path, tensors, about):
        kept.append((path, {name: tensor.clone() for name, tensor in tensors.items()}))
        saved(path, tensors, about)

    monkeypatch.setattr(module, "save_tensors", save)
    chosen = dataclasses.replace(recipe, method=method)
    assert train_run(chosen, tmp_path / "run", device=CPU, report_start=lambda *news: starts.append(news))
    assert [(it.data.size, at.epoch, at.epochs) for it, at in starts] == [(8, 1, 3), (8, 2, 3), (8, 3, 3)]
    (path, start), _ = kept
    assert path == tmp_path / "run" / "start" / "model.safetensors"
    assert seen[1].keys() == {name.removeprefix("classifier.") for name in start if name.startswith("classifier.")}
    assert all(torch.equal(tensor, rounded(start[f"classifier.{name}"])) for name, tensor in seen[1].items())
    assert not all(torch.equal(tensor, seen[0][name]) for name, tensor in seen[1].items())  # and it had learned
    first = read_recipe(tmp_path / "run" / "start" / "recipe.yaml")
    assert (first.method, first.data.size, first.train.epochs, first.start) == ("cohen", 8, 3, None)
    assert not path.exists()  # the trained model holds what became of it


def test_a_start_counts_in_the_time_and_a_trained_run_loads(recipe, tmp_path):
    run = tmp_path / "run"
    assert train_run(recipe, run, device=CPU)
    whole, start = (json.loads((it / "timing.json").read_text())["train_seconds"] for it in (run, run / "start"))
    assert whole >= start
    loaded, benchmark, model = load_run(run, CPU)
    assert loaded.start == Start(8, 3)
    images, _ = benchmark.examples("test", [0])
    assert model(images, torch.Generator().manual_seed(0)).shape == (1, 2)
    assert not train_run(recipe, run, device=CPU)


def test_the_time_of_a_shared_start_counts_in_every_run(recipe, tmp_path):
    start = start_of(recipe)
    folder = start_folder(tmp_path, start)
    assert train_run(start, folder, device=CPU)
    write_train_seconds(folder, 1000.0)
    assert train_run(recipe, tmp_path / "run", device=CPU, starts=tmp_path)
    assert train_seconds(tmp_path / "run") >= 1000


@pytest.mark.parametrize("steps", [2, 14])  # within the start, which has 12 steps, and after it
def test_an_interrupted_start_ends_in_the_same_weights(recipe, tmp_path, steps):
    assert train_run(recipe, tmp_path / "whole", device=CPU)
    asked = []

    def stop():
        asked.append(None)
        return len(asked) > steps

    with pytest.raises(Interrupted):
        train_run(recipe, tmp_path / "run", device=CPU, stop=stop)
    started = (tmp_path / "run" / "start" / "model.safetensors").exists()
    assert started == (steps > 12)
    assert train_run(recipe, tmp_path / "run", device=CPU)
    one, two = (load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "run"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_runs_that_begin_alike_share_their_start(recipe, tmp_path):
    starts, seen = tmp_path / "runs", []
    train = dataclasses.replace(recipe.train, mask=Optimizer(lr=0.5), mask_prior=MaskPrior(0.1))
    cells = {
        "ars": dataclasses.replace(recipe, share=0.3, train=train),
        "cohen": dataclasses.replace(recipe, method="cohen"),
        "other": dataclasses.replace(recipe, method="cohen", sigma=0.3),
    }
    for name, cell in cells.items():
        heard = {"report_start": lambda *news, name=name: seen.append(name)}
        assert train_run(cell, starts / name, device=CPU, starts=starts, **heard)
    assert seen == ["ars"] * 3 + ["other"] * 3
    assert len(list(starts.glob("start-k8-s0.75-seed0-*"))) == len(list(starts.glob("start-k8-s0.3-seed0-*"))) == 1
    alone = tmp_path / "alone"
    assert train_run(cells["cohen"], alone, device=CPU)
    one, two = (load_tensors(folder / "model.safetensors")[0] for folder in (alone, starts / "cohen"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not (starts / "cohen" / "start").exists()


def test_images_that_are_no_larger_leave_the_start_out(recipe):
    assert start_of(dataclasses.replace(recipe, start=Start(16, 3))) is None
    assert start_of(dataclasses.replace(recipe, start=None)) is None
    assert epochs_in_all(dataclasses.replace(recipe, start=None)) == 2
    assert epochs_in_all(recipe) == 2 + 3 / 4


def test_what_only_a_mask_has_is_left_out_of_the_start(recipe):
    train = dataclasses.replace(recipe.train, mask_only_epochs=1, mask_prior=MaskPrior(0.1))
    first = start_of(dataclasses.replace(recipe, share=0.3, train=train))
    assert (first.method, first.train.mask_only_epochs, first.train.mask_prior.weight) == ("cohen", 0, 0.0)
    assert first.sigma == recipe.sigma


def test_another_start_is_another_run(recipe):
    assert recipe.identity != dataclasses.replace(recipe, start=Start(8, 4)).identity


def test_a_start_that_makes_no_sense_is_refused(recipe):
    with pytest.raises(ValueError, match=r"data\.kind digits does not have"):
        dataclasses.replace(recipe, data=Data(passes=1))


def test_on_the_way_unicr_keeps_the_shape_of_its_noise(recipe):
    """The paper's beta is 2.25 at k = 96, sigma = 1.0, and 2 at 64; at sigma = .5 it is the same for both."""
    data = dataclasses.replace(recipe.data, size=96)
    unicr = dataclasses.replace(recipe, method="unicr", data=data, start=Start(32, 3, through=(64,)), sigma=1.0)
    first, alone = starts_of(unicr)
    assert (first.beta, alone.beta) == (2.25, None)
    assert start_of(dataclasses.replace(unicr, beta=1.5)).beta == 1.5
    assert start_of(dataclasses.replace(unicr, sigma=0.5)).beta is None


@pytest.mark.parametrize("through", [(8,), (4,), (16, 12), (16, 16)])
def test_sizes_on_the_way_grow(through):
    with pytest.raises(ValueError, match=r"growing sizes, all above start\.size 8, got"):
        Start(8, 3, through)


def test_a_classifier_that_is_trained_already_needs_no_start(recipe):
    assert start_of(dataclasses.replace(recipe, classifier=Classifier(from_run="there"))) is None


@pytest.mark.parametrize("method", ["adaptive", "cohen", "static_mask"])
def test_a_method_grows_through_the_sizes_on_the_way_with_its_mask(recipe, tmp_path, monkeypatch, method):
    from ars.experiments import training as module

    begins, ends, epochs = [], {}, []

    class Seen(module.Trainer):
        def __init__(self, model, *arguments, **options):
            begins.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
            super().__init__(model, *arguments, **options)

    saved = module.save_tensors

    def save(path, tensors, about):
        ends[path.parent.name.rsplit("-", 1)[0]] = {name: tensor.clone() for name, tensor in tensors.items()}
        saved(path, tensors, about)

    monkeypatch.setattr(module, "Trainer", Seen)
    monkeypatch.setattr(module, "save_tensors", save)
    data = dataclasses.replace(recipe.data, size=24)
    chosen = dataclasses.replace(recipe, method=method, data=data, start=Start(8, 3, through=(16, 32)))
    heard = {"report_start": lambda start, at: epochs.append((start.method, start.data.size, at.epoch))}
    assert train_run(chosen, tmp_path / "run", device=CPU, starts=tmp_path, **heard)
    assert epochs == [("cohen", 8, 1), ("cohen", 8, 2), ("cohen", 8, 3), (method, 16, 1), (method, 16, 2)]
    names = [f"start-k8-s{recipe.sigma:g}-seed0", f"start-{method}-k16-s{recipe.sigma:g}-seed0", "run"]
    assert list(ends) == names
    fresh, first, second = begins
    for name, tensor in second.items():
        if name.startswith("classifier.") or (method == "adaptive" and ".mask." in name):
            assert torch.equal(tensor, rounded(ends[names[1]][name])), name
    if method == "adaptive":
        masks = [name for name in second if ".mask." in name and name.endswith("weight")]
        assert masks
        assert any(not torch.equal(second[name], first[name]) for name in masks)  # and it had learned
    if method == "static_mask":
        assert any(".mask." in name and tensor.shape[-1] == 24 for name, tensor in second.items())
    handed_on = {name: rounded(tensor) for name, tensor in ends[names[0]].items()}
    assert all(torch.equal(tensor, handed_on[name]) for name, tensor in first.items() if "classifier." in name)
    assert any(not torch.equal(fresh[name], first[name]) for name in fresh if name.startswith("classifier."))


def test_a_run_on_the_way_is_that_of_its_own_size(recipe):
    larger = dataclasses.replace(recipe, start=Start(8, 3, through=(12,)))
    smaller = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, size=12))
    assert start_of(larger).identity == smaller.identity != larger.identity != recipe.identity
    assert dataclasses.replace(recipe, start=Start(8, 3, through=(16, 24))).identity == recipe.identity
    assert epochs_in_all(larger) == 2 + 2 * (12 / 16) ** 2 + 3 / 4


@pytest.fixture
def growing(recipe):
    """A recipe, and that of the training on its way, which a sweep may have as a cell."""
    data = dataclasses.replace(recipe.data, size=24)
    larger = dataclasses.replace(recipe, data=data, start=Start(8, 3, through=(16,)))
    return larger, dataclasses.replace(recipe, start=Start(8, 3, through=(16,)))


@pytest.mark.parametrize("rounds", [True, False])
def test_a_cell_of_a_sweep_is_the_start_of_another_rounded_or_not(growing, tmp_path, rounds):
    larger, smaller = growing
    runs, heard, name = tmp_path / "runs", [], cell_name("adaptive", 16, larger.sigma, 0)
    train_run(smaller, runs / name, device=CPU, starts=runs)
    if rounds:
        round_weights(runs / name / "model.safetensors")
    hear = {"report_start": lambda start, at: heard.append(start.data.size)}
    assert train_run(larger, runs / "larger", device=CPU, starts=runs, **hear)
    assert heard == []
    assert not list(runs.glob("start-adaptive-*"))
    assert train_run(larger, tmp_path / "alone", device=CPU)
    one, two = (load_tensors(it / "model.safetensors")[0] for it in (runs / "larger", tmp_path / "alone"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert train_seconds(runs / "larger") >= train_seconds(runs / name)


def test_a_start_that_was_trained_is_not_trained_again_as_a_cell(growing, tmp_path):
    larger, smaller = growing
    assert train_run(larger, tmp_path / "larger", device=CPU, starts=tmp_path)
    [start] = tmp_path.glob("start-adaptive-*")
    kept = (start / "model.safetensors").read_bytes()
    labelled, cell, heard = tmp_path / "labelled", tmp_path / cell_name("adaptive", 16, larger.sigma, 0), []
    assert train_run(smaller, labelled, device=CPU, starts=tmp_path)  # of a label: the start is not its own
    assert not train_run(smaller, cell, device=CPU, starts=tmp_path, report=heard.append)
    assert heard == []
    assert not start.exists()
    assert (cell / "model.safetensors").read_bytes() == kept
    assert load_run(cell, CPU)[0] == smaller
    further = dataclasses.replace(larger, data=dataclasses.replace(larger.data, size=20))
    with pytest.raises(ValueError, match="divisible by 8"):  # and it is found there again
        train_run(further, tmp_path / "further", device=CPU, starts=tmp_path)
    assert start_folder(tmp_path, start_of(larger)) == cell


def stopping(after):
    asked = []

    def stop():
        asked.append(None)
        return len(asked) > after

    return stop


@pytest.mark.parametrize("first", ["smaller", "larger"])
def test_what_was_begun_as_cell_or_start_goes_on_as_the_other(growing, tmp_path, first):
    larger, smaller = growing
    assert train_run(larger, tmp_path / "alone" / "larger", device=CPU, starts=tmp_path / "alone")
    runs, heard = tmp_path / "runs", []
    cells = {
        "smaller": (smaller, runs / cell_name("adaptive", 16, larger.sigma, 0)),
        "larger": (larger, runs / cell_name("adaptive", 24, larger.sigma, 0)),
    }
    recipe, folder = cells.pop(first)
    with pytest.raises(Interrupted):  # asked 3 times an epoch: after the classifier's, in the second epoch at 16
        train_run(recipe, folder, device=CPU, starts=runs, stop=stopping(9 + 4))
    [(other, where)] = cells.values()
    hear = {"report": lambda at: heard.append(at.epoch), "report_start": lambda it, at: heard.append(-at.epoch)}
    assert train_run(other, where, device=CPU, starts=runs, **hear)
    assert heard == ([-2, 1, 2] if first == "smaller" else [2])
    train_run(recipe, folder, device=CPU, starts=runs)
    assert not list(runs.glob("start-adaptive-*"))
    assert not list(runs.rglob("checkpoint.safetensors"))
    ends = (tmp_path / "alone" / "larger", runs / cell_name("adaptive", 24, larger.sigma, 0))
    one, two = (load_tensors(it / "model.safetensors")[0] for it in ends)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_run_that_goes_on_from_its_checkpoint_needs_no_start(growing, tmp_path):
    larger, _ = growing
    assert train_run(larger, tmp_path / "whole", device=CPU)
    run, heard = tmp_path / "run", []
    with pytest.raises(Interrupted):
        train_run(larger, run, device=CPU, stop=stopping(9 + 6 + 4))
    spent = train_seconds(run / "start")
    shutil.rmtree(run / "start")
    assert train_run(larger, run, device=CPU, report_start=lambda *news: heard.append(news))
    assert heard == []
    one, two = (load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "run"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert train_seconds(run) > spent > 0


def test_a_learned_split_goes_along(growing, tmp_path, monkeypatch):
    from ars.experiments import training as module

    begins = []

    class Seen(module.Trainer):
        def __init__(self, model, *arguments, **options):
            begins.append(model.mechanism.sigmas)
            super().__init__(model, *arguments, **options)

    monkeypatch.setattr(module, "Trainer", Seen)
    larger, _ = growing
    train = dataclasses.replace(larger.train, mask=Optimizer(lr=0.1))
    learned = dataclasses.replace(larger, share="learned", train=train)
    assert train_run(learned, tmp_path / "larger", device=CPU, starts=tmp_path)
    [start] = tmp_path.glob("start-adaptive-*")
    _, fresh, taken = begins
    assert fresh[0] == pytest.approx(fresh[1])
    assert taken[0] != pytest.approx(taken[1], rel=0.01)
    assert taken == pytest.approx(load_run(start, CPU)[2].mechanism.sigmas, rel=0.01)


def test_a_run_of_another_recipe_is_neither_start_nor_cell(growing, tmp_path):
    larger, smaller = growing
    cell, heard = tmp_path / cell_name("adaptive", 16, larger.sigma, 0), []
    other = dataclasses.replace(smaller, train=dataclasses.replace(smaller.train, epochs=1))
    train_run(other, cell, device=CPU, starts=tmp_path)
    hear = {"report_start": lambda start, at: heard.append((start.data.size, at.epoch))}
    assert train_run(larger, tmp_path / "larger", device=CPU, starts=tmp_path, **hear)
    assert heard == [(16, 1), (16, 2)]
    further = dataclasses.replace(smaller, share=0.3)
    assert train_run(further, tmp_path / "further", device=CPU, starts=tmp_path)
    (cell / "recipe.yaml").write_text("method: of another version")
    assert start_folder(tmp_path, start_of(larger)).name.startswith("start-adaptive-k16")


def test_a_size_on_the_way_that_the_model_cannot_take_leaves_no_folder(recipe, tmp_path):
    with pytest.raises(ValueError, match="U-Net needs a height and a width divisible by 8 and at least 16, got 12x12"):
        train_run(dataclasses.replace(recipe, start=Start(8, 3, through=(12,))), tmp_path / "run", device=CPU)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("asks", "within"), [(5, "start/start"), (12, "start"), (18, "")])
def test_an_interrupted_way_goes_on(recipe, tmp_path, asks, within):
    data = dataclasses.replace(recipe.data, size=24)
    chosen = dataclasses.replace(recipe, data=data, start=Start(8, 3, through=(16,)))
    assert train_run(chosen, tmp_path / "whole", device=CPU)
    run, asked = tmp_path / "run", []

    def stop():
        asked.append(None)
        return len(asked) > asks

    with pytest.raises(Interrupted):
        train_run(chosen, run, device=CPU, stop=stop)
    assert [it.parent for it in run.rglob("checkpoint.safetensors")] == [run / within]
    assert train_run(chosen, run, device=CPU)
    one, two = (load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "run"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_keys_of_a_start_on_the_command_line():
    options = ["--data.kind=cifar_backgrounds", "--data.size=64"]
    assert read_recipe(None, [*options, "--start.epochs=5"]).start == Start(32, 5)
    assert read_recipe(None, options).start is None
    for wrong, words in (
        ("--start.epochs=0", "start needs size and epochs of at least 1, got 32 and 0"),
        ("--start.through=[16]", "start.through names growing sizes, all above start.size 32, got 16"),
    ):
        with pytest.raises(RecipeError) as caught:
            read_recipe(None, [*options, wrong])
        assert str(caught.value) == f"the options: {words}"


def test_a_start_whose_images_cannot_be_had_leaves_no_folder(recipe, tmp_path, photos):
    scenes = tmp_path / "scenes"
    for part in ("train", "test"):
        (scenes / part).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (20, 20), (number, 0, 0)).save(scenes / part / f"{number}.png")
    data = dataclasses.replace(recipe.data, backgrounds=str(scenes), pasted=12)
    with pytest.raises((DataError, ValueError), match="12"):
        train_run(dataclasses.replace(recipe, data=data), tmp_path / "run", device=CPU)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"train_seconds": "long"}'])
def test_a_damaged_timing_is_named_with_what_to_do(tmp_path, content):
    (tmp_path / "timing.json").write_text(content)
    with pytest.raises(ValueError, match=r"timing\.json is damaged; remove it"):
        train_seconds(tmp_path)
