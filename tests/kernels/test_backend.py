"""Kernels are used where Triton can make them, and a caller's settings of cuDNN are neither lost nor in the way."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from ars.kernels import backend
from ars.kernels.backend import can_compile, choosing, exact
from ars.kernels.compiled import Half
from ars.kernels.trainable import with_kernels
from ars.methods.cohen import cohen
from ars.models import cifar_resnet


def place(monkeypatch, *, triton, found, system="posix", given=None):
    """A machine with this compiler on its path, and this one in CC."""
    monkeypatch.setattr(backend, "find_spec", lambda name: triton and name == "triton")
    monkeypatch.setattr(backend, "os", SimpleNamespace(name=system, environ={"CC": given} if given else {}))
    monkeypatch.setattr(backend, "shutil", SimpleNamespace(which=lambda name: name if name == found else None))


@pytest.mark.parametrize(
    ("triton", "found", "given", "system", "can"),
    [
        (True, "gcc", None, "posix", True),
        (True, "clang", None, "posix", True),
        (True, None, "/opt/cc", "posix", True),
        (True, None, None, "posix", False),
        (True, None, None, "nt", True),
        (False, "gcc", None, "posix", False),
    ],
)
def test_both_triton_and_a_c_compiler_are_needed(triton, found, given, system, can, monkeypatch):
    place(monkeypatch, triton=triton, found=found, system=system, given=given)
    assert can_compile() is can


def test_without_a_c_compiler_networks_run_as_they_are(monkeypatch):
    place(monkeypatch, triton=True, found=None)
    model, half = cohen(cifar_resnet(8, 10), sigma=0.5), Half(cifar_resnet(8, 10).eval())
    assert with_kernels(model) is model
    half.compile_for(4)
    assert half.compiled == {}


CERTIFY = """
import torch, ars
from torch import nn
{setting}
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 3)).eval()
for precision in ("float32", "bfloat16"):
    ars.certify(ars.cohen(net, sigma=0.5), torch.rand(3, 8, 8), n_estimate=200, seed=0, precision=precision)
print({setting_read})
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("fp32_precision", "ieee", marks=pytest.mark.slow),
        ("fp32_precision", "tf32"),
        pytest.param("cudnn.conv.fp32_precision", "ieee", marks=pytest.mark.slow),
        ("cudnn.allow_tf32", False),
    ],
)
def test_whichever_way_the_caller_set_its_precision_it_stays(name, value):
    if "fp32" in name and not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this torch has the older names only")
    setting = f"torch.backends.{name} = {value!r}"
    code = CERTIFY.format(setting=setting, setting_read=f"torch.backends.{name}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{value}\n", "")


def test_settings_hold_for_a_while():
    before = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    with choosing():
        assert torch.backends.cudnn.benchmark
    with exact():
        assert not getattr(torch.backends.cudnn, "conv", None) or torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32) == before
