import dataclasses
import shlex
import shutil
import sys

import pytest
import torch
from safetensors.torch import save_file

from ars.experiments.borrowing import weights_file
from ars.experiments.certifying.given import Around
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import Classifier, RecipeError
from ars.experiments.run import load_run
from ars.experiments.training import train_run
from ars.training.checkpoint import load_tensors, under
from ars.training.loop import Interrupted
from ars.training.settings import Optimizer

from .conftest import CPU, TINY

OWN = """
import torch
from torch import nn

def make():
    tied = nn.Conv2d(3, 3, 3, padding=1)
    return nn.Sequential(tied, nn.BatchNorm2d(3), nn.Dropout(0.5), tied, nn.Flatten(), nn.Linear(3 * 24 * 24, 10))

def unclear():
    network = make()
    network[-1].weight.data[3, 4] = float("nan")
    return network

class Shy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3 * 24 * 24, 10)

    @torch.no_grad()
    def forward(self, x):
        return self.linear(x.flatten(1))
"""
SHORT = dataclasses.replace(TINY.train, max_steps=2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A trained run without a mask."""
    folder = tmp_path_factory.mktemp("source") / "cohen"
    assert train_run(dataclasses.replace(TINY, method="cohen", train=SHORT), folder, device=CPU)
    return folder


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's module in the current folder, and a file of weights for it."""
    (tmp_path / "my_own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import my_own

    torch.manual_seed(5)
    state = my_own.make().state_dict()
    state["1.running_mean"] += 1
    weights = {name: tensor.clone() for name, tensor in state.items()}
    save_file(weights, tmp_path / "my.safetensors")
    unclear = torch.full_like(weights["1.running_var"], torch.nan)
    save_file({**weights, "1.running_var": unclear}, tmp_path / "nan.safetensors")
    yield weights
    sys.modules.pop("my_own", None)


def around(**classifier):
    return dataclasses.replace(TINY, train=SHORT, classifier=dataclasses.replace(TINY.classifier, **classifier))


def classifier_of(folder):
    tensors, _ = load_tensors(folder / "model.safetensors")
    return {name: tensor for name, tensor in tensors.items() if name.startswith("classifier.")}


def test_a_mask_is_trained_around_the_frozen_classifier_of_a_run_and_the_new_run_stands_alone(source, tmp_path):
    copy = tmp_path / "source"
    shutil.copytree(source, copy)
    recipe, folder = around(from_run=str(copy), freeze=True), tmp_path / "run"
    assert train_run(recipe, folder, device=CPU)
    assert not train_run(recipe, folder, device=CPU)
    before, after = classifier_of(source), classifier_of(folder)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    shutil.rmtree(copy)
    certify_run(Request(folder, dataclasses.replace(TINY.certify, examples=2)), device=CPU)
    assert load_run(folder, CPU)[0].classifier.sha256 is not None


def test_a_classifier_that_is_not_frozen_starts_from_the_run_and_learns_on(source, tmp_path):
    started = {}
    recipe = around(from_run=str(source))
    recipe = dataclasses.replace(recipe, train=dataclasses.replace(SHORT, mask_only_epochs=0, max_steps=1))
    slow = dataclasses.replace(recipe.train.classifier, name="sgd", lr=1e-30)
    for name, train in (("slow", dataclasses.replace(recipe.train, classifier=slow)), ("fast", recipe.train)):
        assert train_run(dataclasses.replace(recipe, train=train), tmp_path / name, device=CPU)
        started[name] = classifier_of(tmp_path / name)["classifier.1.0.weight"]
    origin = classifier_of(source)["classifier.1.0.weight"]
    assert torch.equal(started["slow"], origin)
    assert not torch.equal(started["fast"], origin)


def test_a_run_whose_loss_is_no_number_says_how_to_go_on_from_its_checkpoint_and_so_it_does(tmp_path, monkeypatch):
    broken, recipe = tmp_path / "a run", dataclasses.replace(TINY, train=SHORT)
    steps = iter([False, True])
    with pytest.raises(Interrupted):
        train_run(recipe, broken, device=CPU, stop=lambda: next(steps))
    saved = under(load_tensors(broken / "checkpoint.safetensors")[0], "model/")
    with monkeypatch.context() as poisoned:
        poisoned.setattr("ars.training.loop.Trainer._check_weights", lambda trainer: trainer._check_loss(1))
        with pytest.raises(ArithmeticError, match="the last good checkpoint is kept") as caught:
            train_run(recipe, broken, device=CPU)
    option, value = shlex.split(str(caught.value))[-2:]
    assert option == "--classifier.from_run"
    slow = Optimizer(name="sgd", lr=1e-30)
    advised = around(from_run=value)
    assert train_run(
        dataclasses.replace(advised, train=dataclasses.replace(SHORT, classifier=slow)), tmp_path / "run", device=CPU
    )
    trained = dict(load_run(tmp_path / "run", CPU)[2].classifier.named_parameters())
    assert trained
    assert all(torch.equal(trained[name], saved[f"classifier.{name}"]) for name in trained)


def test_a_model_goes_before_a_checkpoint(source, tmp_path):
    shutil.copytree(source, tmp_path / "source")
    (tmp_path / "source" / "checkpoint.safetensors").write_bytes(b"left over")
    assert weights_file(around(from_run=str(tmp_path / "source"))).name == "model.safetensors"


def test_weights_that_change_are_another_recipe(source, tmp_path):
    copy = tmp_path / "source"
    shutil.copytree(source, copy)
    recipe = around(from_run=str(copy), freeze=True)
    assert train_run(recipe, tmp_path / "run", device=CPU)
    tensors, _ = load_tensors(copy / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, copy / "model.safetensors")
    with pytest.raises(RecipeError, match="holds a run of another recipe"):
        train_run(recipe, tmp_path / "run", device=CPU)
    pinned = around(from_run=str(copy), freeze=True, sha256="0" * 64)
    with pytest.raises(RecipeError, match=r"has the SHA-256 .* find the right weights"):
        train_run(pinned, tmp_path / "other", device=CPU)


def test_a_classifier_of_ones_own_is_frozen_with_its_weights_and_named_again_to_be_loaded(own, tmp_path):
    recipe = around(factory="my_own:make", weights="my.safetensors", freeze=True)
    assert train_run(recipe, tmp_path / "run", device=CPU)
    stored = classifier_of(tmp_path / "run")
    assert {name.removeprefix("classifier.") for name in stored} == own.keys()
    assert all(torch.equal(stored[f"classifier.{name}"], tensor) for name, tensor in own.items())
    (tmp_path / "my.safetensors").unlink()
    with pytest.raises(RecipeError, match="around a classifier of your own; give --classifier my_own:make again"):
        load_run(tmp_path / "run", CPU)
    _, _, model = load_run(tmp_path / "run", CPU, classifier="my_own:make")
    assert all(torch.equal(model.classifier.state_dict()[name], tensor) for name, tensor in own.items())
    few = dataclasses.replace(TINY.certify, examples=2)
    certify_run(Request(tmp_path / "run", few, given=Around(tmp_path / "run", "my_own:make")), device=CPU)


def test_a_run_with_a_classifier_of_ours_takes_no_other(source):
    with pytest.raises(RecipeError, match="leave --classifier out"):
        load_run(source, CPU, classifier="my_own:make")


@pytest.mark.parametrize(
    ("classifier", "words"),
    [
        ({"from_run": "nowhere"}, "classifier.from_run names nowhere, where no trained model is"),
        ({"factory": "my_own:make", "weights": "no.safetensors"}, "weights names no.safetensors, where no file"),
        ({"factory": "my_own:make", "weights": "my_own.py"}, "my_own.py is damaged or not .*; a .*save_file"),
        ({"factory": "my_own:Shy", "weights": "my.safetensors"}, "weights of another network: .* tensors do not fit"),
        ({"factory": "my_own:make", "weights": "nan.safetensors", "freeze": True},
         r"nan.safetensors holds weights that are no numbers, 1\.running_var for one; give others"),
        ({"factory": "my_own:unclear", "freeze": True},
         r"my_own:unclear holds weights that are no numbers, classifier\..* for one; give others"),
        ({"factory": "my_own:Shy", "freeze": True}, "my_own:Shy passes no gradient on"),
        ({"factory": "my_own:none"}, "my_own has no attribute 'none'"),
    ],
)  # fmt: skip
def test_what_cannot_be_borrowed_is_refused_and_nothing_is_written(own, tmp_path, classifier, words):
    with pytest.raises(ValueError, match=words) as caught:
        train_run(around(**classifier), tmp_path / "run", device=CPU)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_of_another_network_is_refused(source, tmp_path):
    with pytest.raises(RecipeError, match="weights of another network"):
        train_run(around(from_run=str(source), width=8), tmp_path / "run", device=CPU)


def test_what_makes_no_sense_is_refused_with_the_recipe():
    with pytest.raises(ValueError, match="has no mask, so with a frozen classifier there is nothing to train"):
        dataclasses.replace(TINY, method="cohen", classifier=Classifier(from_run="x", freeze=True))
    with pytest.raises(ValueError, match=r"classifier\.freeze needs a classifier that is trained already"):
        Classifier(freeze=True)
    with pytest.raises(ValueError, match="belong to a classifier of your own"):
        Classifier(weights="x")
    with pytest.raises(ValueError, match="not from both"):
        Classifier(factory="a:b", weights="x", from_run="y")
    alone = dataclasses.replace(TINY.train, epochs=2, mask_only_epochs=1)
    with pytest.raises(ValueError, match="method unicr has no mask to train alone"):
        dataclasses.replace(TINY, method="unicr", train=alone)
    with pytest.raises(ValueError, match="every epoch is mask-only"):
        dataclasses.replace(TINY, classifier=Classifier(from_run="x", freeze=True), train=alone)
