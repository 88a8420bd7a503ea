"""Where things run, and on how many cores."""

import pytest
import torch

from ars.experiments.device import choose_device, choose_precision


@pytest.mark.parametrize("name", ["meta", "abacus", "cuda:77"])
def test_a_device_that_cannot_compute_is_refused(name):
    with pytest.raises(ValueError, match=f"torch cannot use the device '{name}' here; try --device cpu"):
        choose_device(name)


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


def test_kernels_are_launched_on_the_gpu_that_was_named(monkeypatch):
    chosen, zeros = [], torch.zeros
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch, "zeros", lambda *size, device: zeros(*size))
    choose_device("cuda:1")
    assert chosen == [torch.device("cuda:1")]


@pytest.mark.parametrize(("native", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_bf16_that_a_gpu_only_imitates_is_not_chosen(monkeypatch, native, precision):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: native or including_emulation)
    assert choose_precision("auto", torch.device("cuda")) == precision
