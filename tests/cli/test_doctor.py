"""ars doctor tells what the machine offers; every line holds something that was found, not assumed."""

import json
from importlib.metadata import version

import pytest
import torch

from ars.cli import doctor
from ars.cli.main import main


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(doctor, "SECONDS", 0.01)
    monkeypatch.setattr(doctor, "DRAWS", 100)


def test_versions_device_and_measured_speed_are_printed(capsys):
    assert main(["doctor", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert f"torch {version('torch')}" in found["packages"]
    assert found["device"].startswith("cpu")
    assert f"{torch.get_num_threads()} used" in found["device"]
    for model in doctor.MODELS:
        assert float(found[model].split()[0].replace(",", "")) > 0


def test_each_line_appears_as_it_is_found(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_draws_per_second", lambda name, device: 1 / 0)
    assert main(["doctor", "--device", "cpu"]) == 2
    assert "packages" in capsys.readouterr().out


def test_what_is_missing_is_said(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "EXTRAS", {"no-such-package": "nothing"})
    monkeypatch.setattr(doctor, "MODELS", {})
    monkeypatch.delenv("ARS_DATA", raising=False)
    assert main(["doctor", "--device", "cpu"]) == 0
    told = capsys.readouterr().out
    assert "no-such-package (nothing): not installed" in told
    assert "not found: cifar_backgrounds, celeba, imagenet;" in told
