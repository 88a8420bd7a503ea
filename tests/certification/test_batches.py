"""Device batches: whatever their size and whatever fails, votes are neither lost nor counted twice."""

import tracemalloc
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ars.certification import sampling
from ars.certification.limits import BLOCK
from ars.certification.memory import CPU_PIXELS, limit_memory, suitable_batch
from ars.certification.sampling import count_votes
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last


@pytest.fixture
def images():
    return torch.rand(3, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def votes(model, images, n=550, **options):
    how = {"n": n, "stage": "estimate", "seed": 3, **options}
    return count_votes(model, images, list(range(len(images))), **how)


class Fragile(nn.Module):
    """Runs out of memory on batches above a size, and at given calls."""

    def __init__(self, largest, failing=()):
        super().__init__()
        self.largest, self.failing = largest, failing
        self.calls, self.seen = [], []

    def forward(self, image):
        self.calls.append(len(image))
        if len(image) > self.largest or len(self.calls) in self.failing:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.seen.append(image.clone())
        return image.mean(dim=(2, 3))


@pytest.mark.parametrize("failing", [(), (1,), (2, 3), (1, 2, 5)])
def test_running_out_of_memory_loses_and_repeats_no_draw(images, failing):
    def model(network):
        return SmoothedClassifier(compose(Gaussian(0.5)), last, network)

    calm, fragile = Fragile(10**9), Fragile(400, failing)
    expected = votes(model(calm), images, n=1450)
    assert (votes(model(fragile), images, n=1450, batch_size=1600) == expected).all()
    assert torch.equal(torch.cat(fragile.seen), torch.cat(calm.seen))
    assert fragile.calls[0] == 1600


def test_what_fitted_is_where_the_next_call_starts(images):
    fragile = Fragile(400)
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, fragile)
    votes(model, images, n=1000)
    fragile.calls.clear()
    votes(model, images, n=1000)
    assert max(fragile.calls) <= 400


def test_a_single_block_that_does_not_fit_is_reported(images):
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Fragile(50))
    with pytest.raises(torch.OutOfMemoryError):
        votes(model, images)


def test_ten_million_draws_take_the_memory_of_a_thousand(cohen, monkeypatch):
    sizes = set()

    def logits(model, images, positions, names, mechanisms):
        sizes.add(len(positions))
        return torch.zeros(1, 2).expand(len(positions) * BLOCK, 2)

    monkeypatch.setattr(sampling, "_logits", logits)
    peaks = []
    for n in (10**5, 10**7):
        tracemalloc.start()
        counts = count_votes(cohen(), torch.rand(1, 1, 16, 16), [0], n=n, stage="estimate", seed=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert counts.tolist() == [[n, 0]]
    assert peaks[1] < 2 * peaks[0] + 50_000
    assert max(sizes) * BLOCK <= suitable_batch(torch.rand(1, 1, 16, 16))


def test_the_batch_suits_the_size_of_the_images():
    assert suitable_batch(torch.rand(1, 3, 24, 24)) == CPU_PIXELS // 24**2 // BLOCK * BLOCK
    assert suitable_batch(torch.rand(1, 3, 224, 224)) == BLOCK


def test_a_memory_limit_needs_a_gpu():
    with pytest.raises(ValueError, match="needs a CUDA device"):
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
