"""ars demo: every method with the noise, the seed and the device that were asked for."""

from types import SimpleNamespace

import pytest

from ars.cli.demo import METHODS, STAGES, STATIC_MASK_LR
from ars.cli.main import main
from ars.methods.registry import methods as registered
from ars.recipes.recipe import Recipe


@pytest.fixture
def made(monkeypatch):
    """What is trained, certified and reported, instead of doing it."""
    calls = {"train": [], "certify": [], "report": [], "table": []}
    for name in ("train", "certify"):
        call = f"ars.cli.demo.{name}_with_progress"
        monkeypatch.setattr(call, lambda *it, to=calls[name], **how: to.append((it, how)))
    made = SimpleNamespace(table="the table")
    monkeypatch.setattr("ars.report.write_report", lambda *it: calls["report"].append(it) or made)
    monkeypatch.setattr("ars.cli.table.print_table", calls["table"].append)
    return calls


def test_all_methods_have_the_noise_the_seed_and_the_device_that_were_asked_for(made, tmp_path, capsys):
    options = ["--sigma=0.3", "--seed=4", "--device=cpu", "--out", str(tmp_path)]
    assert main(["demo", "--methods", "static_mask", "cohen", *options]) == 0
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
    assert capsys.readouterr().out == f"open {tmp_path / 'report' / 'index.html'}\n"


@pytest.mark.parametrize(("options", "methods"), [([], METHODS), (["--methods", "all"], tuple(registered()))])
def test_some_methods_are_usual_and_all_are_all(made, options, methods):
    assert main(["demo", *options]) == 0
    assert tuple(trained[0].method for trained, _ in made["train"]) == methods
