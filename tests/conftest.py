import dataclasses

import pytest
import torch
from hypothesis import settings

from ars.certification.settings import CertifySettings
from ars.recipes.recipe import Classifier, Data, Mask, Recipe
from ars.runs.shards import merge
from ars.training.settings import TrainSettings
from ars.workflows.certify import certify_run
from ars.workflows.request import Request
from ars.workflows.stages import save_stages
from ars.workflows.train import train_run

# a slow machine is no failure
settings.register_profile("ars", deadline=None)
settings.load_profile("ars")

TINY = Recipe(
    data=Data(passes=1),
    classifier=Classifier(width=4),
    mask=Mask(width=2),
    train=TrainSettings(epochs=1, batch_size=256, precision="float32"),
    certify=CertifySettings(examples=6, n_select=20, n_estimate=50, precision="float32"),
)
CPU = torch.device("cpu")


def records_of(folder, name="test"):
    """All records of a certification, without the time that each took."""
    return [dataclasses.replace(record, seconds=0.0) for record in merge(folder / "certify" / name).records]


def contents(folder):
    """The bytes of every file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
