"""ars vote as its users meet it: Ctrl-C between images, and what goes on from there."""

import json
import os
import shutil
import signal

import pytest
import torch
import yaml

from ars.cli import main, vote
from ars.experiments import voting


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vote") / "run"
    tiny = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256", "--train.epochs=1"]
    in_float32 = ["--train.precision=float32", "--certify.precision=float32", "--device=cpu"]
    assert main(["train", "--out", str(folder), *tiny, *in_float32]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def interrupted(run, monkeypatch, capfd):
    """A run whose vote was interrupted while the first images were voted on."""
    real = voting.local_votes

    def votes(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(voting, "local_votes", votes)
        assert main(["vote", str(run), "--draws=20", "--device=cpu"]) == 130
    return run


def test_ctrl_c_is_answered_at_once_and_ends_the_vote_after_a_few_images(interrupted, capfd, monkeypatch):
    errors = capfd.readouterr().err
    assert "ending after the images in flight; Ctrl-C again ends at once" in errors
    assert f"run the same command again to go on from here: ars vote {interrupted} --draws=20" in errors
    assert json.loads((interrupted / "vote-begun.json").read_text())["images"] == 10
    monkeypatch.setattr(vote, "LINE_SECONDS", 0.0)
    assert main(["vote", str(interrupted), "--draws=20", "--device=cpu"]) == 0
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == [f"{done} of 300 voted on" for done in range(10, 301, 10)]


def test_a_begun_vote_of_other_draws_is_not_thrown_away(interrupted, capfd):
    begun = (interrupted / "vote-begun.json").read_text()
    capfd.readouterr()
    assert main(["vote", str(interrupted), "--draws=30", "--device=cpu"]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "vote-begun.json is a vote of 20 draws with seed 0 in float32, begun on 10 images; go on with it, or" in line
    assert line.endswith("move it away to vote with 30 draws with seed 0 in float32")
    assert (interrupted / "vote-begun.json").read_text() == begun


def test_a_vote_has_the_seed_and_the_precision_of_the_recipe_and_all_that_was_asked_for(run, monkeypatch, capsys):
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["certify"] |= {"seed": 5, "precision": "bfloat16"}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    handed = {}

    def vote_run(folder, **how):
        handed.update(how)
        raise ValueError("not now")

    monkeypatch.setattr(voting, "vote_run", vote_run)
    asked = ["--draws=7", "--device=cpu", "--classifier=my:net", "--data.root=photos"]
    assert main(["vote", str(run), *asked]) == 2
    assert "not now" in capsys.readouterr().err
    wanted = {"draws": 7, "seed": 5, "precision": "bfloat16", "device": torch.device("cpu"), "classifier": "my:net"}
    assert {name: handed[name] for name in wanted} == wanted
    assert list(handed["moved"]) == ["--data.root=photos"]
