"""Models to share: they come back as they were, with a card that says what was measured and how; no network."""

import re
import shlex
import shutil

import pytest
import torch

import ars
from ars.certification.digest import digest_model
from ars.cli.main import main, make_parser
from ars.runs.run import load_runs

from ..conftest import contents


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub in a folder."""
    place = tmp_path / "hub"

    class Api:
        def create_repo(self, repository, *, private, exist_ok):
            return f"https://example.org/{repository}"

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, place / repo_id)

    def download(repository, *, allow_patterns):
        if not (place / repository).exists():
            raise FileNotFoundError("no such repository")
        target = tmp_path / "cache" / repository
        target.mkdir(parents=True)
        for name in allow_patterns:
            shutil.copy(place / repository / name, target)
        return str(target)

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    return place


def test_a_run_that_is_pushed_is_loaded_from_its_name(trained, hub, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["push", str(trained), "someone/tiny"]) == 0
    assert capsys.readouterr().out.strip() == "https://example.org/someone/tiny"
    model, own = ars.load("someone/tiny"), ars.load(trained)
    assert digest_model(model) == digest_model(own)
    x = torch.rand(1, 3, 24, 24)
    answers = [one(x, torch.Generator().manual_seed(0)) for one in (model, own)]
    assert torch.equal(*answers)
    assert 'ars.load("someone/tiny")' in (hub / "someone" / "tiny" / "README.md").read_text()


def test_the_names_of_huggingface_hub_do_the_same(trained, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ars.SmoothedClassifier.from_pretrained(str(trained))
    model.save_pretrained("saved")
    same = ars.SmoothedClassifier.from_pretrained("saved")
    assert digest_model(same) == digest_model(model)
    assert model.push_to_hub("someone/other").endswith("someone/other")
    with pytest.raises(ValueError, match="not empty"):
        model.save_pretrained("saved")


def test_the_card_says_what_was_measured_and_the_command_measures_it_again(trained, tmp_path):
    folder = ars.save(trained, tmp_path / "saved")
    card = (folder / "README.md").read_text()
    [run], [again] = load_runs([trained]), load_runs([folder])
    assert again.records == run.records
    for part in (f"α = {run.settings.alpha}", "6 of 300 test images", run.model, "ℓ∞", "50, after 20"):
        assert part in card
    for sigma in run.settings.sigmas:
        assert f"{sigma:.4g}" in card
    [command] = re.findall(r"^ars (certify .*)$", card, flags=re.MULTILINE)
    options = make_parser().parse_args(shlex.split(command))
    assert (options.examples, options.n_estimate, options.alpha, options.seed) == (6, 50, 0.05, 0)
    assert main([*shlex.split(command.replace("RUN", str(folder))), "--device=cpu"]) == 0
    repeated = load_runs([folder], name="again")[0].records
    assert [one.certificate for one in repeated] == [one.certificate for one in run.records]


def test_no_place_of_this_machine_and_no_pickle_is_shared(trained, tmp_path):
    found = contents(ars.save(trained, tmp_path / "saved"))
    assert set(found) == {"README.md", "recipe.yaml", "benchmark.json", "model.safetensors",
                          "certify/test/settings.json", "certify/test/records.jsonl.gz"}  # fmt: skip
    assert not any(str(tmp_path).encode() in content or b"/tmp/" in content for content in found.values())


def test_the_places_of_data_are_only_named(tmp_path):
    from ars.data.settings import Data
    from ars.recipes.recipe import Recipe
    from ars.workflows.hub import _portable

    recipe = Recipe(data=Data("folder", root="/home/me/photos"))
    assert _portable(recipe).data.root == "photos"


def test_what_cannot_be_loaded_again_is_refused(trained, tmp_path):
    with pytest.raises(ValueError, match="holds no code"):
        ars.cohen(torch.nn.Flatten(), sigma=0.5).save_pretrained(str(tmp_path / "a"))
    model = ars.load(trained)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    with pytest.raises(ValueError, match="has changed"):
        ars.save(model, tmp_path / "b")
    with pytest.raises(ValueError, match="no trained weights"):
        ars.save(tmp_path, tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_a_name_that_nothing_has_is_refused(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no run folder at someone/nothing"):
        ars.load("someone/nothing")
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="not a run folder"):  # a mistyped path is no name on the Hub
        ars.load("runs/nothing")
