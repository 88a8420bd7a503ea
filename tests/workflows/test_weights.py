"""Weights that a classifier begins with, and weights that are rounded before they are certified and packed."""

import dataclasses
import shlex
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from ars.certification.digest import digest_model
from ars.recipes.recipe import RecipeError
from ars.tensors import load_tensors, under
from ars.training.loop import Interrupted
from ars.training.settings import Optimizer
from ars.workflows.certify import certify_run
from ars.workflows.load import load_run
from ars.workflows.request import Request
from ars.workflows.sweeps.state import is_rounded
from ars.workflows.train import train_run
from ars.workflows.weights import packed_weights, round_weights, weights_file

from ..conftest import CPU, TINY

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
FEW = dataclasses.replace(TINY.certify, examples=2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A trained run without a mask."""
    folder = tmp_path_factory.mktemp("source") / "cohen"
    assert train_run(dataclasses.replace(TINY, method="cohen", train=SHORT), folder, device=CPU)
    return folder


@pytest.fixture
def copy(source, tmp_path):
    return shutil.copytree(source, tmp_path / "source")


@pytest.fixture
def own(own_code, tmp_path):
    """The user's module in the current folder, and files of weights for it."""
    own_code("my_own", OWN)
    import my_own

    torch.manual_seed(5)
    weights = {name: tensor.clone() for name, tensor in my_own.make().state_dict().items()}
    weights["1.running_mean"] += 1
    save_file(weights, tmp_path / "my.safetensors")
    unclear = torch.full_like(weights["1.running_var"], torch.nan)
    save_file({**weights, "1.running_var": unclear}, tmp_path / "nan.safetensors")
    return weights


def around(train=SHORT, **classifier):
    return dataclasses.replace(TINY, train=train, classifier=dataclasses.replace(TINY.classifier, **classifier))


def classifier_of(folder):
    return under(load_tensors(folder / "model.safetensors")[0], "classifier.")


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_mask_is_trained_around_the_frozen_classifier_of_a_run_and_needs_that_run_no_more(source, copy, tmp_path):
    recipe, folder = around(from_run=str(copy), freeze=True), tmp_path / "run"
    assert train_run(recipe, folder, device=CPU)
    assert not train_run(recipe, folder, device=CPU)
    assert_same(classifier_of(folder), classifier_of(source))
    shutil.rmtree(copy)
    certify_run(Request(folder, FEW), device=CPU)
    assert load_run(folder, CPU)[0].classifier.sha256 is not None


def test_a_classifier_that_is_not_frozen_starts_from_the_run_and_continues_to_learn(source, tmp_path):
    train = dataclasses.replace(SHORT, mask_only_epochs=0, max_steps=1)
    started, slow = {}, dataclasses.replace(train.classifier, name="sgd", lr=1e-30)
    for name, optimizer in (("slow", slow), ("fast", train.classifier)):
        recipe = around(dataclasses.replace(train, classifier=optimizer), from_run=str(source))
        assert train_run(recipe, tmp_path / name, device=CPU)
        started[name] = classifier_of(tmp_path / name)["1.0.weight"]
    origin = classifier_of(source)["1.0.weight"]
    assert torch.equal(started["slow"], origin)
    assert not torch.equal(started["fast"], origin)


def test_a_run_whose_loss_is_not_a_number_names_its_checkpoint_which_another_run_starts_from(tmp_path, monkeypatch):
    broken, recipe = tmp_path / "a run", dataclasses.replace(TINY, train=SHORT)
    steps = iter([False, True])
    with pytest.raises(Interrupted):
        train_run(recipe, broken, device=CPU, stop=lambda: next(steps))
    saved = under(load_tensors(broken / "checkpoint.safetensors")[0], "model/classifier.")

    def fail(trainer):
        raise ArithmeticError(trainer._trouble("the loss is", 1))

    with monkeypatch.context() as poisoned:
        poisoned.setattr("ars.training.loop.Trainer._check_weights", fail)
        with pytest.raises(ArithmeticError, match="checkpoint") as caught:
            train_run(recipe, broken, device=CPU)
    option, value = shlex.split(str(caught.value))[-2:]
    assert option == "--classifier.from_run"
    slow = dataclasses.replace(SHORT, classifier=Optimizer(name="sgd", lr=1e-30))
    assert train_run(around(slow, from_run=value), tmp_path / "run", device=CPU)
    trained = dict(load_run(tmp_path / "run", CPU)[2].classifier.named_parameters())
    assert_same(trained, {name: saved[name] for name in trained})


def test_a_model_goes_before_a_checkpoint(copy):
    (copy / "checkpoint.safetensors").write_bytes(b"left over")
    assert weights_file(around(from_run=str(copy))).name == "model.safetensors"


def test_other_weights_are_another_recipe(copy, tmp_path):
    recipe = around(from_run=str(copy), freeze=True)
    assert train_run(recipe, tmp_path / "run", device=CPU)
    tensors, _ = load_tensors(copy / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, copy / "model.safetensors")
    with pytest.raises(RecipeError, match="another recipe"):
        train_run(recipe, tmp_path / "run", device=CPU)
    with pytest.raises(RecipeError, match="SHA-256"):
        train_run(around(from_run=str(copy), freeze=True, sha256="0" * 64), tmp_path / "other", device=CPU)


def test_the_users_own_classifier_is_frozen_with_its_weights(own, tmp_path):
    recipe = around(factory="my_own:make", weights="my.safetensors", freeze=True)
    assert train_run(recipe, tmp_path / "run", device=CPU)
    assert_same(classifier_of(tmp_path / "run"), own)
    (tmp_path / "my.safetensors").unlink()
    _, _, model = load_run(tmp_path / "run", CPU, classifier="my_own:make")
    assert_same(model.classifier.state_dict(), own)
    certify_run(Request(tmp_path / "run", FEW, classifier="my_own:make"), device=CPU)


@pytest.mark.parametrize(
    ("classifier", "words"),
    [
        ({"from_run": "nowhere"}, "classifier.from_run names nowhere"),
        ({"from_run": "source", "width": 8}, "another network"),
        ({"factory": "my_own:make", "weights": "no.safetensors"}, "no.safetensors"),
        ({"factory": "my_own:make", "weights": "my_own.py"}, "my_own.py .*save_file"),
        ({"factory": "my_own:Shy", "weights": "my.safetensors"}, "another network"),
        (
            {"factory": "my_own:make", "weights": "nan.safetensors", "freeze": True},
            r"nan.* 1\.running_var",
        ),
        ({"factory": "my_own:unclear", "freeze": True}, r"my_own:unclear .* classifier\."),
        ({"factory": "my_own:Shy", "freeze": True}, "my_own:Shy .* gradient"),
        ({"factory": "my_own:none"}, "no attribute 'none'"),
    ],
)
def test_a_classifier_that_cannot_be_trained_around_is_refused_and_nothing_is_written(
    own, copy, tmp_path, classifier, words
):
    with pytest.raises(ValueError, match=words) as caught:
        train_run(around(**classifier), tmp_path / "run", device=CPU)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_packed_model_is_the_rounded_one_that_was_certified(run, tmp_path):
    path = run / "model.safetensors"
    before = load_file(path)
    assert not is_rounded(path)
    assert packed_weights(path) == path.read_bytes()  # before it was rounded
    round_weights(path)
    assert is_rounded(path)
    after = load_file(path)
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype
        if tensor.dtype == torch.float32:
            assert torch.all((after[name] - tensor).abs() <= tensor.abs() / 256)
            assert not torch.any(after[name].view(torch.int32) & 0xFFFF)
        else:
            assert torch.equal(after[name], tensor)  # num_batches_tracked
    assert any(not torch.equal(after[name], before[name]) for name in before)
    once = path.read_bytes()
    round_weights(path)
    assert path.read_bytes() == once
    certified = certify_run(Request(run, FEW), device=CPU)

    packed = tmp_path / "packed"
    packed.mkdir()
    for name in ("recipe.yaml", "benchmark.json"):
        shutil.copy(run / name, packed)
    (packed / "model.safetensors").write_bytes(packed_weights(path))
    assert load_file(packed / "model.safetensors")["classifier.1.0.weight"].dtype == torch.bfloat16
    assert digest_model(load_run(packed, CPU)[2]) == digest_model(load_run(run, CPU)[2])
    again = certify_run(Request(packed, FEW), device=CPU)
    assert [record.certificate for record in again] == [record.certificate for record in certified]


def test_tiny_and_large_statistics_survive_and_doubles_are_left_alone(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {
        "var": torch.tensor([1e-38, 1e-30, 3e38, 0.0]),
        "split": torch.tensor([0.1], dtype=torch.float64),
        "steps": torch.tensor(123456789),
    }
    save_file(tensors, path, metadata={"about": '{"identity": "x"}'})
    round_weights(path)
    rounded = load_file(path)
    torch.testing.assert_close(rounded["var"], tensors["var"], rtol=1 / 256, atol=0)
    assert torch.equal(rounded["split"], tensors["split"])
    assert torch.equal(rounded["steps"], tensors["steps"])


def test_a_file_that_only_says_it_was_rounded_is_refused(run):
    path = run / "model.safetensors"
    save_file(load_file(path), path, metadata={"about": '{"weights": "bf16"}'})
    with pytest.raises(ValueError, match="rounded"):
        packed_weights(path)
