"""ars demo: every method with the noise, the seed and the device that were asked for."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from ars.cli.demo import METHODS, STAGES, STATIC_MASK_LR
from ars.cli.main import main
from ars.methods.registry import methods as registered
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Recipe
from ars.runs.paths import PRETRAINED

RESULTS = Path(__file__).parents[2] / "results" / "digits"


@pytest.fixture
def made(monkeypatch):
    """What is trained, certified and reported, instead of doing it."""
    calls = {"train": [], "certify": [], "vote": [], "report": [], "table": []}
    for name in ("train", "certify", "vote"):
        call = f"ars.cli.demo.{name}_with_progress"
        monkeypatch.setattr(call, lambda *it, to=calls[name], **how: to.append((it, how)))
    monkeypatch.setattr("ars.cli.demo.sentence", lambda tally: "the vote")
    made = SimpleNamespace(table="the table")
    monkeypatch.setattr("ars.report.write_report", lambda *it: calls["report"].append(it) or made)
    monkeypatch.setattr("ars.cli.table.print_table", calls["table"].append)
    return calls


def test_all_methods_have_the_noise_the_seed_and_the_device_that_were_asked_for(made, tmp_path, capsys):
    options = ["--sigma=0.3", "--seed=4", "--device=cpu", "--out", str(tmp_path)]
    assert main(["demo", "--train", "--methods", "static_mask", "cohen", *options]) == 0
    folders = [tmp_path / "static_mask", tmp_path / "cohen"]
    for (trained, _), (certified, how), folder in zip(made["train"], made["certify"], folders, strict=True):
        recipe, where, device = trained
        assert (recipe.method, recipe.sigma, recipe.seed) == (folder.name, 0.3, 4)
        assert (where, device) == (folder, "cpu")
        request, device = certified
        assert (request.folder, request.settings, device) == (folder, recipe.certify, "cpu")
        assert how == {"stages": STAGES}
    lrs = [trained[0].train.mask.lr for trained, _ in made["train"]]
    assert lrs == [STATIC_MASK_LR, Recipe().train.mask.lr]
    assert made["report"] == [(folders, tmp_path / "report")]
    assert made["table"] == ["the table"]
    requests = [certified[0] for certified, _ in made["certify"]]
    assert [voted for voted, _ in made["vote"]] == [(request.folder, request.settings, "cpu") for request in requests]
    voted = "".join(f"{folder}: the vote\n" for folder in folders)
    assert capsys.readouterr().out == f"{voted}open {tmp_path / 'report' / 'index.html'}\n"


@pytest.mark.parametrize(("options", "methods"), [([], METHODS), (["--methods", "all"], tuple(registered()))])
def test_some_methods_are_usual_and_all_are_all(made, options, methods):
    assert main(["demo", "--train", *options]) == 0
    assert tuple(trained[0].method for trained, _ in made["train"]) == methods


def test_without_training_the_models_that_come_with_ars_are_certified(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    assert made["train"] == []
    requests = [certified[0] for certified, _ in made["certify"]]
    assert [request.folder.name for request in requests] == list(METHODS)
    for request in requests:
        recipe = read_recipe(request.folder / "recipe.yaml")
        assert recipe.method == request.folder.name
        assert request.settings == recipe.certify
        assert (request.folder / "model.safetensors").stat().st_size > 100_000


@pytest.mark.parametrize("options", [["--sigma", "0.5"], ["--seed", "1"], ["--methods", "unicr"], ["--methods", "all"]])
def test_what_no_model_of_ars_has_needs_training(made, options, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *options]) == 2
    assert "--train" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", sorted(PRETRAINED.rglob("*.*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_models_that_come_with_ars_are_those_of_the_committed_results(path):
    method = path.parent.name.partition("-")[2] or "adaptive"
    assert path.read_bytes() == (RESULTS / f"{method}-s0.75-seed0" / path.name).read_bytes()
