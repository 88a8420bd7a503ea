"""Kernels are used where Triton can make them, by Triton's own rule for the C compiler of its launchers."""

from types import SimpleNamespace

import pytest

from ars.kernels import compiler
from ars.kernels.half import Half
from ars.kernels.training import with_kernels
from ars.methods import cohen
from ars.models import cifar_resnet


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
    assert compiler.can_compile() is can


def test_without_a_c_compiler_networks_run_as_they_are(monkeypatch):
    place(monkeypatch, triton=True, found=None)
    model, half = cohen(cifar_resnet(8, 10), sigma=0.5), Half(cifar_resnet(8, 10).eval())
    assert with_kernels(model) is model
    half.compile_for(4)
    assert half.compiled == {}


def place(monkeypatch, *, triton, found, system="posix", given=None):
    """A machine with this compiler on its path, and this one in CC."""
    monkeypatch.setattr(compiler, "find_spec", lambda name: triton and name == "triton")
    monkeypatch.setattr(compiler, "os", SimpleNamespace(name=system, environ={"CC": given} if given else {}))
    monkeypatch.setattr(compiler, "shutil", SimpleNamespace(which=lambda name: name if name == found else None))
