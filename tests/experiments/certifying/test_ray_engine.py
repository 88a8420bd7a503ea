import dataclasses
import os
import sys

import pytest

from ars.certification.shards import merge
from ars.experiments.certifying.given import Given
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.ray_engine import RayError, certify_with_ray
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import CertifySettings

from ..conftest import CPU

SETTINGS = CertifySettings(examples=12, n_select=20, n_estimate=60, precision="float32")
# dies once, in the middle of a shard, and never in the driver
MODEL = """
import os, signal
from pathlib import Path
import torch
from torch import nn
from ars import cohen

class Mortal(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3 * 24 * 24, 10)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if os.getpid() != int(Path("driver").read_text()) and self.calls == 3:
            deaths = Path("deaths")
            if len(deaths.read_text()) < int(Path("wanted").read_text()):
                deaths.write_text(deaths.read_text() + "x")
                os.kill(os.getpid(), signal.SIGKILL)
        return self.linear(x.flatten(1))

def make():
    return cohen(Mortal(), sigma=0.5)
"""


def content(folder):
    return [dataclasses.replace(record, seconds=0.0) for record in merge(folder / "certify" / "test").records]


def test_without_ray_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayError, match=r"pip install 'adaptive-smoothing\[ray\]'"):
        certify_with_ray(Request(tmp_path, SETTINGS), device_name="cpu")


@pytest.mark.slow
def test_a_lost_worker_costs_its_shard_alone_and_changes_no_record(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    (tmp_path / "mortal.py").write_text(MODEL)
    (tmp_path / "driver").write_text(str(os.getpid()))
    (tmp_path / "deaths").write_text("")
    (tmp_path / "wanted").write_text("1")
    monkeypatch.chdir(tmp_path)
    given = Given("mortal:make", ("--data.kind=digits",))
    certify_run(Request(tmp_path / "alone", SETTINGS, given=given, shard_size=2), device=CPU)
    seen = []
    certify_with_ray(
        Request(tmp_path / "ray", SETTINGS, given=given, shard_size=2),
        device_name="cpu",
        report=lambda at: seen.append(at.done),
    )
    assert (tmp_path / "deaths").read_text() == "x"
    assert seen == [0, 2, 4, 6, 8, 10, 12]
    assert content(tmp_path / "ray") == content(tmp_path / "alone")
    # nothing left: starts no cluster
    certify_with_ray(Request(tmp_path / "ray", SETTINGS, given=given), device_name="cpu")


@pytest.mark.slow
def test_a_shard_that_is_lost_again_and_again_is_given_up_in_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    (tmp_path / "mortal.py").write_text(MODEL)
    (tmp_path / "driver").write_text(str(os.getpid()))
    (tmp_path / "deaths").write_text("")
    (tmp_path / "wanted").write_text("1000")
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("mortal", None)
    with pytest.raises(RayError, match="a shard was lost 4 times with its worker"):
        certify_with_ray(
            Request(tmp_path / "ray", SETTINGS, given=Given("mortal:make", ("--data.kind=digits",))), device_name="cpu"
        )


@pytest.mark.slow
def test_an_error_of_a_worker_comes_back_as_it_is(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    (tmp_path / "failing.py").write_text(
        "import os\nfrom pathlib import Path\nfrom torch import nn\nfrom ars import cohen\n"
        "class Net(nn.Linear):\n    def forward(self, x):\n"
        "        if os.getpid() != int(Path('driver').read_text()):\n            raise ValueError('no good')\n"
        "        return super().forward(x.flatten(1))\n"
        "def make():\n    import torch\n    torch.manual_seed(0)\n    return cohen(Net(3 * 24 * 24, 10), sigma=0.5)\n"
    )
    (tmp_path / "driver").write_text(str(os.getpid()))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no good"):
        certify_with_ray(
            Request(tmp_path / "ray", SETTINGS, given=Given("failing:make", ("--data.kind=digits",))), device_name="cpu"
        )
