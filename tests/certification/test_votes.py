"""The vote loop: no noise is used twice, and neither batches nor failures lose or repeat a vote."""

import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ars.certification.memory import suitable_batch
from ars.certification.settings import BLOCK
from ars.certification.votes import VoteCounter, block_seed
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance
from ars.smoothing.masked import WeightRange
from ars.training.loop import step_seed

from .user_parts import Function

seeds = st.integers(0, 2**63)


@given(seeds, st.integers(0, 2**40), st.sets(st.integers(0, 2**31 - 1), min_size=2, max_size=50))
def test_no_two_blocks_of_an_image_share_a_seed_not_even_its_low_half(seed, index, blocks):
    """torch's CPU generator reads the low 32 bits alone; selection and estimation count as different blocks."""
    own = [block_seed(seed, index, stage, block) for stage in ("select", "estimate") for block in blocks]
    assert len({value % 2**32 for value in own}) == 2 * len(blocks)
    assert all(0 <= value < 2**63 for value in own)


def test_seeds_of_different_images_and_runs_differ():
    values = {block_seed(seed, index, "estimate", 0) for seed in range(50) for index in range(200)}
    assert len(values) == 50 * 200


@pytest.mark.parametrize("purpose", [0, 1, 2])
def test_training_and_certification_share_no_noise(purpose):
    trained = {step_seed(seed, step, purpose=purpose) for seed in range(20) for step in range(100)}
    drawn = {
        block_seed(seed, index, stage, block) % 2**32
        for seed in range(20)
        for index in range(100)
        for stage in ("select", "estimate")
        for block in range(2)
    }
    assert len(trained) == 2000
    assert not trained & drawn


def test_selection_and_estimation_draws_are_different_noise(count):
    """The classifier sees both stages of both images; no draw comes twice."""
    seen = []
    network = Function(lambda image: seen.append(image.clone()) or image.mean(dim=(2, 3)))
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, network)
    for stage in ("select", "estimate"):
        count(model, torch.full((2, 2, 3, 3), 0.5), n=300, stage=stage)
    draws = torch.cat(seen).flatten(1)
    assert len(draws) == 2 * 2 * 300
    assert len(torch.unique(draws, dim=0)) == len(draws)


@pytest.mark.parametrize("n", [1, 99, 100, 101, 250, 1000])
def test_every_draw_is_counted_once(ars, count, n):
    counts = count(ars(), torch.rand(3, 1, 4, 4), n=n)
    assert (counts.shape, counts.dtype) == ((3, 2), np.int64)
    assert counts.sum(axis=1).tolist() == [n] * 3


@pytest.mark.parametrize("n", [200, 250])
def test_blocks_counted_apart_add_up_to_those_counted_together(network, images, count, n):
    rest = count(network, images, n=n, first_block=3)
    assert (count(network, images, n=300) + rest == count(network, images, n=300 + n)).all()
    assert rest.sum() == 3 * n


@pytest.mark.parametrize("batch_size", [1, 100, 199, 300, 1000, 10_000])
def test_the_batch_size_does_not_change_the_votes(network, images, count, batch_size):
    expected = count(network, images, batch_size=500)
    assert (count(network, images, batch_size=batch_size) == expected).all()
    assert (expected > 0).sum(axis=1).min() > 1


def test_order_and_company_do_not_change_the_votes(network, images, count):
    def of(places):
        return count(network, images[places], [10 + place for place in places])

    together = of([0, 1, 2])
    assert (of([2, 0, 1]) == together[[2, 0, 1]]).all()
    for place in range(3):
        assert (of([place]) == together[[place]]).all()


def test_the_global_random_state_is_neither_read_nor_moved(network, images, count):
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first = count(network, images, n=300)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(1)
    assert (count(network, images, n=300) == first).all()


def test_who_watches_hears_of_the_draws_that_count_batch_by_batch(cohen, count):
    heard, images = [], torch.rand(3, 1, 2, 2)
    seen = count(cohen(), images, n=250, batch_size=200, watch=heard.append)
    assert heard == [200, 150, 150, 200, 50]  # blocks of 100, 100 and 50 draws per image, two at a time
    assert (seen == count(cohen(), images, n=250, batch_size=200)).all()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),  # it could share its noise with another
        ({"indices": [-1]}, "index"),
        ({"indices": [2**32]}, "index"),
        ({"n": 0}, "n must"),
        ({"n": -5}, "n must"),
        ({"first_block": -1}, "first_block"),
        ({"precision": "float16"}, "precision"),
    ],
)
def test_what_no_draws_can_be_made_with_is_refused_before_drawing(cohen, count, changes, name):
    model = cohen()
    with pytest.raises(ValueError, match=name):
        count(model, torch.rand(1, 1, 2, 2), **{"indices": [0], **changes})
    assert not model.classifier.calls


@pytest.mark.parametrize("batch_size", [100, 300, None])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_images_with_noise_of_their_own_share_their_batches(images, count, batch_size, precision):
    """The votes are those of each image alone; the network sees several images at once, and is called less often."""
    calls = []
    network = Function(lambda x: calls.append(len(x)) or x.mean(dim=(2, 3)))
    model = SmoothedClassifier(compose(Gaussian(0.2), Gaussian(0.4)), minimum_variance, network)
    mechanisms = [compose(Gaussian(sigma), Gaussian(2 * sigma)) for sigma in (0.2, 0.7, 3.0)]
    counter = VoteCounter(model, precision, batch_size=batch_size)
    how = {"n": 250, "stage": "estimate", "seed": 3}
    alone = np.concatenate([counter([mechanisms[i]], images[i : i + 1], [i], **how) for i in range(3)])
    calls.clear()
    assert (counter(mechanisms, images, [0, 1, 2], **how) == alone).all()
    assert len({*map(tuple, alone.tolist())}) == 3  # the noise levels make a difference
    assert len(calls) == {100: 9, 300: 3, None: 1}[batch_size]


def test_the_mechanism_draws_whatever_else_the_model_would_do(cohen, count):
    """Nothing reaches the classifier but the releases: neither a forward pass nor a hook of the whole model runs."""

    class Bypassing(SmoothedClassifier):
        def forward(self, x, generator):
            raise AssertionError("the loop must not call it")

    plain = cohen()
    model = Bypassing(plain.mechanism, plain.combine, plain.classifier)
    model.register_forward_hook(lambda *_: 1 / 0)
    x = torch.full((1, 1, 2, 2), 0.5)
    assert (count(model, x) == count(plain, x)).all()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_logits_that_are_not_numbers_are_no_votes(images, count, precision):
    network = nn.Sequential(nn.Flatten(), nn.Linear(108, 3))
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, network)
    count(model, images, n=100, precision=precision)
    with torch.no_grad():
        network[1].bias[2] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        count(model, images, n=100, precision=precision)


@pytest.mark.parametrize("late", [False, True])
def test_a_mask_outside_of_its_range_is_refused_even_in_the_last_batch_alone(images, count, late):
    calls = []

    def mask(seen):
        calls.append(len(seen))
        return torch.full_like(seen[:, :1], 1.5 if not late or len(calls) == 5 else 0.5)

    model = SmoothedClassifier(
        compose(Gaussian(0.5), MaskedGaussian(0.5, Function(mask))), last, Function(lambda x: x.mean(dim=(2, 3)))
    )
    with pytest.raises(ValueError, match="mask"):
        count(model, images[:1], n=500, batch_size=100)


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
def test_running_out_of_memory_loses_and_repeats_no_draw(images, count, failing):
    calm, fragile = Fragile(10**9), Fragile(400, failing)
    models = [SmoothedClassifier(compose(Gaussian(0.5)), last, network) for network in (calm, fragile)]
    expected = count(models[0], images, n=1450)
    assert (count(models[1], images, n=1450, batch_size=1600) == expected).all()
    assert torch.equal(torch.cat(fragile.seen), torch.cat(calm.seen))
    assert fragile.calls[0] == 1600


def test_a_single_block_that_does_not_fit_is_reported(images, count):
    with pytest.raises(torch.OutOfMemoryError):
        count(SmoothedClassifier(compose(Gaussian(0.5)), last, Fragile(50)), images)


def test_a_million_draws_take_the_memory_of_ten_thousand(cohen, count, monkeypatch):
    sizes, image = set(), torch.rand(1, 1, 16, 16)

    def logits(counter, mechanisms, images, positions, generators, masks):
        sizes.add(len(positions))
        return torch.zeros(1, 2).expand(len(positions) * BLOCK, 2)

    monkeypatch.setattr(VoteCounter, "_logits", logits)
    peaks = []
    for n in (10**4, 10**6):
        tracemalloc.start()
        counts = count(cohen(), image, n=n)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert counts.tolist() == [[n, 0]]
    assert peaks[1] < 2 * peaks[0] + 50_000
    assert max(sizes) * BLOCK <= suitable_batch(image)


def test_the_loop_never_waits_for_the_device(network, images, count, monkeypatch):
    """Nothing in the loop asks a tensor for its value: the counts are fetched once, at the end."""
    asked = []
    monkeypatch.setattr(WeightRange, "check", lambda masks: None)  # on a CPU, where nothing waits, after each batch
    for name in ("item", "tolist", "__bool__", "__int__", "__float__", "cpu", "numpy", "nonzero"):
        real = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda self, *args, real=real, name=name: asked.append(name) or real(self, *args)
        )
    for n in (100, 3000):
        asked.clear()
        count(network, images, n=n, batch_size=300)
        assert asked == ["cpu", "numpy", "__bool__"]  # the counts, and whether all logits were numbers


def test_threads_that_count_with_one_counter_take_turns():
    """Fused networks keep their activations in shared memory, which another thread would overwrite."""
    inside, most = [], []

    def network(x):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()
        return x.flatten(1)[:, :2]

    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Function(network)).eval()
    image = torch.rand(1, 3, 8, 8)
    counter = VoteCounter(model, "float32", batch_size=100)

    def count(index):
        return counter([model.mechanism], image, [index], n=500, stage="select", seed=0).tolist()

    alone = [count(index) for index in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, range(4))) == alone
    assert max(most) == 1
