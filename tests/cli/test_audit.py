"""ars audit: a run folder and an imported model, exit codes, and what is refused."""

import json
import shutil

import pytest

from ars.audit import model_audit, network_checks
from ars.audit.planted import PLANTED
from ars.cli import audit as command
from ars.cli.main import main

from .conftest import interrupt

FEW = ["--draws=2000", "--examples=2", "--device=cpu", "--precision=float32"]
STEP = """
import torch
from torch import nn
import ars

class Less(ars.Gaussian):
    def release(self, x, past, generator):
        good = super().release(x, past, generator)
        return ars.Release(x + (good.value - x) / 4, good.weight, good.std)

def mine():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24**2, 10))
    return ars.SmoothedClassifier(ars.compose(Less(0.5)), ars.last, network)
"""


@pytest.fixture
def run(cohen, tmp_path):
    """A copy of a trained run without a mask, which is fast."""
    return shutil.copytree(cohen, tmp_path / "run")


@pytest.fixture(autouse=True)
def few_controls(monkeypatch):
    monkeypatch.setattr(model_audit, "PLANTED", PLANTED[:2])
    monkeypatch.setattr(network_checks, "IMAGES_COUNTED", 5)


@pytest.mark.slow
def test_a_trained_run_is_audited_into_its_folder(run, printed):
    shown = printed(["audit", str(run), *FEW])
    assert "no defect found" in shown.out
    assert "2 of 2 planted defects" in shown.out
    written = json.loads((run / "audit" / "audit.json").read_text())
    assert written["sound"]
    assert written["settings"] == {"draws": 2000, "images": 2, "norm": "linf", "seed": 0, "precision": "float32",
                                   "exact": False}  # fmt: skip
    assert (run / "audit" / "index.html").is_file()


def test_defects_of_an_imported_model_are_named_and_end_with_1(own, capsys):
    (own / "mine.py").write_text(STEP)
    assert main(["audit", "mine:mine", "--data=digits", *FEW, "--json"]) == 1
    written = json.loads(capsys.readouterr().out)
    assert "noise" in written["verdict"]
    assert json.loads((own / "audit" / "audit.json").read_text()) == written


def test_an_audit_that_is_interrupted_writes_nothing(run, monkeypatch, capsys):
    monkeypatch.setattr(model_audit, "control", interrupt)
    assert main(["audit", str(run), *FEW]) == 130
    assert "nothing was saved" in capsys.readouterr().err
    assert not (run / "audit").exists()


def test_an_imported_plain_classifier_needs_noise_and_images(own, refused):
    assert "--data" in refused(["audit", "own_model:network", *FEW])
    assert "--sigma" in refused(["audit", "own_model:network", "--data=digits", *FEW])


def test_what_cannot_be_audited_is_refused(run, refused, tmp_path):
    assert "not a run folder" in refused(["audit", str(tmp_path / "none")])
    assert "PACKAGE:NAME" in refused(["audit", str(run), "--sigma=1"])
    assert "draws" in refused(["audit", str(run), "--draws=10"])
    assert "--examples" in refused(["audit", str(run), *FEW, "--examples=100000"])
    (tmp_path / "index.html").write_text("mine")
    assert "another page" in refused(["audit", str(run), *FEW, f"--out={tmp_path}"])
    assert (tmp_path / "index.html").read_text() == "mine"
    assert not (run / "audit").exists()


def test_the_defaults_of_the_help_are_those_of_the_settings():
    from ars.audit.draws import AuditSettings

    assert AuditSettings().draws == command.DRAWS
