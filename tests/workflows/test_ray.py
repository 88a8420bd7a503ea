"""Shards on a Ray cluster: a lost worker costs its shard alone. Workers differ from the driver by their process id."""

import os
import sys
from pathlib import Path

import pytest

from ars.certification.settings import CertifySettings
from ars.runs.shards import merge
from ars.workflows.certify import certify_run
from ars.workflows.imported_model import Given
from ars.workflows.ray import RETRIES, RayError, certify_with_ray
from ars.workflows.request import Request

from ..conftest import CPU, records_of
from .ray_trials import drivers_and_workers_are_killed, nodes_come_and_go

SETTINGS = CertifySettings(examples=12, n_select=20, n_estimate=60, precision="float32")
MODEL = """
import os, signal
from pathlib import Path
import torch
from torch import nn
from ars import cohen

class Linear(nn.Linear):
    blocks = 0

    def forward(self, x):
        self.blocks += len(x) == 200  # of the two images of a shard
        if os.getpid() != int(Path("driver").read_text()):
            self.in_worker()
        return super().forward(x.flatten(1))

class Mortal(Linear):
    def in_worker(self):
        deaths = Path("deaths")
        if self.blocks == 2 and len(deaths.read_text()) < int(Path("wanted").read_text()):
            deaths.write_text(deaths.read_text() + "x")
            os.kill(os.getpid(), signal.SIGKILL)

class Failing(Linear):
    def in_worker(self):
        raise ValueError("no good")

def make(kind):
    torch.manual_seed(0)
    return cohen(kind(3 * 24 * 24, 10), sigma=0.5)

def mortal():
    return make(Mortal)

def failing():
    return make(Failing)
"""


@pytest.fixture(autouse=True)
def cluster_of_its_own(monkeypatch):
    """Do not join a cluster that happens to run on this machine."""
    monkeypatch.setenv("RAY_ADDRESS", "local")


@pytest.fixture
def own(own_code):
    """Write the models and how often a worker is to die; the request to certify one of them into a folder."""
    own_code("own", MODEL)
    Path("driver").write_text(str(os.getpid()))
    Path("deaths").write_text("")

    def request(name, folder, deaths=0):
        Path("wanted").write_text(str(deaths))
        return Request(Path(folder), SETTINGS, given=Given(f"own:{name}", ("--data.kind=digits",)), shard_size=2)

    return request


def test_without_ray_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayError, match=r"pip install .*\[ray\]"):
        certify_with_ray(Request(tmp_path, SETTINGS), device_name="cpu")


@pytest.mark.slow
def test_a_lost_worker_costs_its_shard_alone_and_changes_no_record(own):
    pytest.importorskip("ray")
    certify_run(own("mortal", "alone"), device=CPU)
    seen = []
    certify_with_ray(own("mortal", "ray", deaths=1), device_name="cpu", report=lambda at: seen.append(at.done))
    assert Path("deaths").read_text() == "x"
    assert list(dict.fromkeys(seen)) == [0, 2, 4, 6, 8, 10, 12]
    assert records_of(Path("ray")) == records_of(Path("alone"))
    certify_with_ray(own("mortal", "ray"), device_name="cpu")  # nothing left: starts no cluster


@pytest.mark.slow
def test_a_stop_keeps_the_shards_in_flight_and_the_end_of_time_drops_them(own):
    pytest.importorskip("ray")
    folder, seen = Path("ray") / "certify" / "test", []
    with pytest.raises(KeyboardInterrupt):
        certify_with_ray(own("mortal", "ray"), device_name="cpu", over=lambda: folder.exists())
    assert not list(folder.glob("*.jsonl"))
    with pytest.raises(KeyboardInterrupt):
        certify_with_ray(own("mortal", "ray"), device_name="cpu", report=seen.append, stop=lambda: len(seen) > 1)
    there = merge(folder, partial=True)
    assert 0 < len(there.records) < 12
    assert len(there.records) == seen[-1].done
    assert any("shard" in worker for at in seen for worker in at.workers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [("mortal", RayError, f"lost its worker {RETRIES + 1} times"), ("failing", ValueError, "no good")],
)
def test_a_shard_that_is_lost_repeatedly_and_an_error_of_a_worker_end_in_one_sentence(own, name, error, words):
    pytest.importorskip("ray")
    with pytest.raises(error, match=words):
        certify_with_ray(own(name, "ray", deaths=1000), device_name="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("trial", "images"), [(nodes_come_and_go, 300), (drivers_and_workers_are_killed, 100)])
def test_faults_on_purpose_change_no_record(trial, images, tmp_path):
    """Few of the faults of ray_trials.py, which says how to make many."""
    pytest.importorskip("ray")
    result = trial(tmp_path, images=images, events=3, seconds=5.0, seed=1)
    assert result["equal"]
    assert sum(result["events"].values()) > 0
