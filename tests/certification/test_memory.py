from types import SimpleNamespace

import pytest
import torch

from ars.certification.memory import CPU_PIXELS, is_short_of_memory, limit_memory, suitable_batch
from ars.certification.settings import BLOCK


def test_the_batch_suits_the_size_of_the_images():
    assert suitable_batch(torch.rand(1, 3, 24, 24)) == CPU_PIXELS // 24**2 // BLOCK * BLOCK
    assert suitable_batch(torch.rand(1, 3, 224, 224)) == BLOCK


def test_a_memory_limit_needs_a_gpu():
    with pytest.raises(ValueError, match="CUDA"):
        limit_memory(torch.device("cpu"), 4)


def test_a_memory_limit_is_set_on_the_current_gpu_by_its_number(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=16 * 2**30))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, device: asked.append((share, device))
    )
    monkeypatch.setattr("ars.certification.memory._LIMITS", {})
    limit_memory(torch.device("cuda"), 4)
    limit_memory(torch.device("cuda:1"), 8)
    assert asked == [(0.25, 3), (0.5, 1)]


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (torch.OutOfMemoryError("no memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_a_cpu_without_memory_is_told_from_other_errors(error, short):
    assert is_short_of_memory(error) is short
