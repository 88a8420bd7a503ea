import dataclasses

import pytest
import torch

from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import CertifySettings, Classifier, Data, Mask, Recipe
from ars.experiments.stages import save_stages
from ars.experiments.training import train_run
from ars.training.settings import TrainSettings

TINY = Recipe(
    data=Data(passes=1),
    classifier=Classifier(width=4),
    mask=Mask(width=2),
    train=TrainSettings(epochs=1, batch_size=256, precision="float32"),
    certify=CertifySettings(examples=6, n_select=20, n_estimate=50, precision="float32"),
)
CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A tiny run that was trained and certified, for reading only."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert train_run(TINY, folder, device=CPU)
    certify_run(Request(folder, TINY.certify), device=CPU)
    save_stages(Request(folder, TINY.certify, name="test"), device=CPU, images=3)
    return folder


@pytest.fixture
def tiny():
    return lambda **changes: dataclasses.replace(TINY, **changes)
