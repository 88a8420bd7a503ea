"""ars vote as its users meet it: Ctrl-C between images, and how it resumes."""

import json
import signal

import torch
import yaml

from ars.certification.certifier import Certifier
from ars.cli.main import main

from .conftest import signal_self


def test_ctrl_c_ends_the_vote_after_a_few_images_and_the_same_command_resumes(run, capfd, monkeypatch):
    line, real = ["vote", str(run), "--draws=20", "--device=cpu"], Certifier.votes

    def votes(*arguments, **options):
        signal_self(signal.SIGINT)
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Certifier, "votes", votes)
        assert main(line) == 130
    errors = capfd.readouterr().err
    assert "Ctrl-C again" in errors
    assert f"run the same command again to resume: ars vote {run} --draws=20" in errors
    assert json.loads((run / "vote-begun.json").read_text())["images"] == 10
    monkeypatch.setattr("ars.cli.views.LINE_SECONDS", 0.0)
    assert main(line) == 0
    output = capfd.readouterr()
    lines = [line.split(": ")[1] for line in output.err.splitlines()]
    assert lines == [f"{done} of 300 voted on" for done in range(10, 301, 10)]
    kept = json.loads((run / "vote.json").read_text())
    assert f"{kept['accuracy']:.2%} of 300 test images" in output.out
    assert main([*line, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == kept


def test_a_vote_has_the_seed_and_the_precision_of_the_recipe_and_all_that_was_asked_for(run, monkeypatch, refused):
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["certify"] |= {"seed": 5, "precision": "bfloat16"}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    handed = {}

    def vote_run(folder, **how):
        handed.update(how)
        raise ValueError("not now")

    monkeypatch.setattr("ars.workflows.vote.vote_run", vote_run)
    asked = ["--draws=7", "--device=cpu", "--classifier=my:net", "--data.root=photos"]
    assert "not now" in refused(["vote", str(run), *asked])
    wanted = {"draws": 7, "seed": 5, "precision": "bfloat16", "device": torch.device("cpu"), "classifier": "my:net"}
    assert {name: handed[name] for name in wanted} == wanted
    assert list(handed["moved"]) == ["--data.root=photos"]
