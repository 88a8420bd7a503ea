"""The very model that was trained, from its folder; a folder of something else is refused."""

import dataclasses
import json
import shutil

import pytest
import torch

import ars
from ars.certification.digest import digest_model
from ars.data.benchmark import open_benchmark
from ars.data.settings import DataError
from ars.methods.registry import methods
from ars.recipes.recipe import Classifier, RecipeError
from ars.runs.run import ReportError, load_runs
from ars.smoothing import Gaussian, MaskedGaussian
from ars.tensors import CheckpointError, load_tensors
from ars.workflows.load import load_run, load_without_data
from ars.workflows.train import train_run

from ..conftest import CPU, TINY, contents

ONE_STEP = dataclasses.replace(TINY.train, max_steps=1)
OWN = "from torch import nn\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 10))\n"


def test_a_run_folder_holds_all_that_a_report_needs(trained):
    assert contents(trained).keys() == {
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


def test_a_loaded_model_is_in_eval_mode_and_gives_the_certificates_of_its_records(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    model = ars.load("run", device=torch.device("cpu"))
    assert not any(module.training for module in model.modules())
    assert load_run(trained, CPU)[0] == TINY
    [run] = load_runs([trained], partial=True)
    images, _ = open_benchmark(TINY.data).examples("test", range(6))
    settings = dataclasses.asdict(TINY.certify)
    made = ars.certify(model, images, **{name: settings[name] for name in ("n_select", "n_estimate", "alpha", "seed")})
    assert made == [record.certificate for record in run.records]


def test_a_learned_split_is_loaded_as_plain_numbers(tiny, tmp_path):
    assert train_run(tiny(share="learned"), tmp_path / "run", device=CPU)
    logit = float(load_tensors(tmp_path / "run" / "model.safetensors")[0]["mechanism.steps.0.split.logit"])
    share = 0.02 + 0.96 / (1 + torch.tensor(-logit, dtype=torch.float64).exp().item())
    assert logit != 0
    assert json.loads((tmp_path / "run" / "train.jsonl").read_text())["share"] == pytest.approx(share, abs=1e-6)
    mechanism = load_run(tmp_path / "run", CPU)[2].mechanism
    assert mechanism.sigmas[0] == pytest.approx(TINY.sigma / share**0.5, rel=1e-9)
    assert [type(step) for step in mechanism.steps] == [Gaussian, MaskedGaussian]
    assert not any(name.endswith("logit") for name, _ in mechanism.named_parameters())


@pytest.mark.parametrize("changes", [*({"method": name} for name in methods()), {"share": "learned"}], ids=str)
def test_without_its_data_the_model_is_the_very_same(tiny, tmp_path, monkeypatch, changes):
    folder = tmp_path / "run"
    train_run(tiny(train=ONE_STEP, **changes), folder, device=CPU)
    _, benchmark, model = load_run(folder, CPU)
    if changes.get("method") != "sukenik":
        monkeypatch.setattr("ars.workflows.load.open_benchmark", lambda *_: pytest.fail("the data was opened"))
    inputs, alone = load_without_data(folder, CPU)
    assert (inputs.shape, list(inputs.class_names)) == (benchmark.shape, list(benchmark.class_names))
    assert digest_model(alone) == digest_model(model)
    image = benchmark.examples("test", [0])[0]
    draws = [one.localise(image)[0].release(image, torch.Generator().manual_seed(0)) for one in (model, alone)]
    assert all(torch.equal(one.value, other.value) for one, other in zip(*draws, strict=True))


def test_the_users_own_classifier_is_named_again_and_needs_no_data(trained, tiny, tmp_path, own_code):
    own_code("own_network", OWN)
    folder = tmp_path / "run"
    train_run(tiny(classifier=Classifier(factory="own_network:make"), train=ONE_STEP), folder, device=CPU)
    alone = load_without_data(folder, CPU, classifier="own_network:make")[1]
    assert digest_model(alone) == digest_model(load_run(folder, CPU, classifier="own_network:make")[2])
    with pytest.raises(RecipeError, match="--classifier own_network:make"):
        load_run(folder, CPU)
    with pytest.raises(RecipeError, match="leave --classifier out"):
        load_run(trained, CPU, classifier="own_network:make")
    own_code("own_network", OWN.replace("10", "5"))
    with pytest.raises(RecipeError, match="another network"):
        load_run(folder, CPU, classifier="own_network:make")


def test_a_description_of_the_inputs_that_is_missing_is_named(run):
    (run / "benchmark.json").unlink()
    with pytest.raises(ReportError, match=r"benchmark\.json"):
        load_without_data(run, CPU)


def test_weights_of_another_recipe_are_refused(trained, tiny, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("model.safetensors", "benchmark.json"):
        shutil.copy(trained / name, other)
    (other / "recipe.yaml").write_text(tiny(method="cohen").to_yaml())
    with pytest.raises(CheckpointError, match="another recipe"):
        load_run(other, CPU)
    with pytest.raises(RecipeError, match="not a run folder"):
        ars.load(tmp_path)


def test_a_run_without_its_weights_says_why(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "model.safetensors").unlink()
    with pytest.raises(RecipeError, match="training"):
        load_run(run, CPU)
    (run / "certify" / "test" / "records.jsonl.gz").touch()
    with pytest.raises(RecipeError, match=r"packed without its weights; .*ars train .*\.yaml --out"):
        load_run(run, CPU)


@pytest.mark.parametrize(
    "change", [lambda names: names[1:] + names[:1], lambda names: [*names[:-1], "ten"]], ids=["order", "names"]
)
def test_data_with_other_classes_or_in_another_order_is_refused(trained, tmp_path, change):
    """A label is a number: in another order of the classes it would mean another class."""
    run = shutil.copytree(trained, tmp_path / "run")
    about = json.loads((run / "benchmark.json").read_text())
    (run / "benchmark.json").write_text(json.dumps({**about, "class_names": change(about["class_names"])}))
    with pytest.raises(DataError, match="other classes"):
        load_run(run, CPU)
