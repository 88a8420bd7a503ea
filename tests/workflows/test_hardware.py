"""Where a command runs, on how many cores, and what environment.json says a run was made with."""

import json

import pytest
import torch

import ars
from ars.workflows import hardware
from ars.workflows.hardware import choose_device, source_digest, write_environment

from ..conftest import CPU


@pytest.mark.parametrize("name", ["meta", "abacus", "cuda:77"])
def test_a_device_that_cannot_compute_is_refused(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        choose_device(name)


def test_each_local_rank_has_a_gpu_unless_one_was_named(monkeypatch):
    chosen, zeros = [], torch.zeros
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch, "zeros", lambda *size, device: zeros(*size))
    assert [choose_device("auto", local).index for local in (0, 1, 2, None)] == [0, 1, 0, None]
    assert choose_device("cpu", 1) == CPU
    chosen.clear()
    choose_device("cuda:1")
    assert chosen == [torch.device("cuda:1")]  # where kernels are launched


@pytest.mark.parametrize(("usable", "threads"), [(1, 1), (2, 1), (6, 5), (64, 8)])
def test_one_of_the_cores_that_the_process_may_use_is_left_to_others(monkeypatch, usable, threads):
    seen = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)  # of the machine, of which a batch system lends a part
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(usable)), raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    choose_device("cpu")
    assert seen == [threads]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of ours."""
    (tmp_path / "ars" / "theory").mkdir(parents=True)
    (tmp_path / "ars" / "__init__.py").write_text("one = 1")
    (tmp_path / "ars" / "theory" / "noise.py").write_text("two = 2")
    monkeypatch.setattr(hardware, "files", lambda name: tmp_path / name)
    yield tmp_path / "ars"
    source_digest.cache_clear()


def test_code_that_differs_in_anything_has_another_digest(package):
    def digest():
        source_digest.cache_clear()
        return source_digest()

    digests = [digest()]
    (package / "theory" / "noise.py").write_text("two = 3")
    digests.append(digest())
    (package / "theory" / "noise.py").rename(package / "theory" / "masked.py")
    digests.append(digest())
    (package / "note.txt").write_text("no code")
    assert digest() == digests[-1]
    assert len(set(digests)) == 3


def test_a_run_says_by_which_code_and_on_what_it_was_made(tmp_path, monkeypatch):
    write_environment(tmp_path, CPU)
    content = json.loads((tmp_path / "environment.json").read_text())
    assert (content["ars"], content["source"], content["torch"]) == (
        ars.__version__,
        source_digest(),
        torch.__version__,
    )
    assert "cores, " in content["device"]
    assert "cuda" not in content
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91000)
    write_environment(tmp_path, torch.device("cuda"))
    content = json.loads((tmp_path / "environment.json").read_text())
    assert (content["device"], content["cudnn"]) == ("a GPU", "91000")
    assert {"cuda", "source"} <= content.keys()
