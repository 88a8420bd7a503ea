"""ars vote as its users meet it: Ctrl-C between images, and what goes on from there."""

import json
import os
import shutil
import signal

import pytest

from ars.cli import main, vote
from ars.experiments import voting


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vote") / "run"
    tiny = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256", "--train.epochs=1"]
    assert main(["train", "--out", str(folder), *tiny, "--train.precision=float32", "--device=cpu"]) == 0
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
