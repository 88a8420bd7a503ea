"""ars.load gives the very model that was certified, from its folder alone."""

import shutil

import pytest
import torch

import ars
from ars.data.opening import open_benchmark
from ars.experiments.recipe import RecipeError
from ars.report.results import load_runs

from .conftest import TINY


def test_a_loaded_model_gives_the_certificates_of_its_records(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    model = ars.load("run")
    assert not model.training
    [run] = load_runs([trained], partial=True)
    settings = TINY.certify
    images, _ = open_benchmark(TINY.data).examples("test", [record.certificate.index for record in run.records])
    made = ars.certify(
        model, images, n_select=settings.n_select, n_estimate=settings.n_estimate, alpha=settings.alpha,
        seed=settings.seed, indices=[record.certificate.index for record in run.records],
    )  # fmt: skip
    assert made == [record.certificate for record in run.records]


def test_a_folder_without_a_run_is_told_in_one_sentence(tmp_path):
    with pytest.raises(RecipeError, match=r"is not a run folder: it has no recipe\.yaml; make one with ars train"):
        ars.load(tmp_path)


def test_the_model_lies_on_the_device_that_was_asked_for(trained):
    assert {tensor.device for tensor in ars.load(trained, device=torch.device("cpu")).parameters()} == {
        torch.device("cpu")
    }
