import dataclasses
import os
from zlib import crc32

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

# fixed in make test; make test-all sets another one in each run
SEED = os.environ.get("ARS_TEST_SEED", "0")
MOST_FALSE_ALARMS = 1e-4
"""Probability that any random test of a run fails although nothing is wrong."""


def pytest_report_header():
    return f"random tests draw from ARS_TEST_SEED={SEED}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Refuse random tests whose stated false-alarm probabilities add up to too much."""
    total = sum(mark.args[0] for item in items for mark in item.iter_markers("false_alarm"))
    if total > MOST_FALSE_ALARMS:
        raise pytest.UsageError(f"the random tests raise a false alarm with probability {total:.1e} in all; lower some")


@pytest.fixture
def seed(request):
    """A number of this test's own, another one in each run of make test-all."""
    if request.node.get_closest_marker("false_alarm") is None:
        raise ValueError("a test with random outcomes states them: @pytest.mark.false_alarm(1e-7)")
    return crc32(f"{SEED} {request.node.nodeid}".encode())


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
