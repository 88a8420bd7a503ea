import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ars.certification.procedure import certify
from ars.certification.sampling import BLOCK, autocast, block_seed, count_votes, local_votes, watched
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance
from ars.training.loop import step_seed

seeds = st.integers(0, 2**63)


@pytest.fixture
def images():
    return torch.rand(3, 3, 6, 6, generator=torch.Generator().manual_seed(1))


@given(seeds, st.integers(0, 2**40), st.sets(st.integers(0, 2**31 - 1), min_size=2, max_size=50))
def test_no_two_blocks_of_an_image_share_a_seed_not_even_its_low_half(seed, index, blocks):
    """torch's CPU generator reads the low 32 bits alone; selection and estimation count as different blocks."""
    own = [block_seed(seed, index, stage, block) for stage in ("select", "estimate") for block in blocks]
    assert len({value % 2**32 for value in own}) == 2 * len(blocks)
    assert all(0 <= value < 2**63 for value in own)


def test_the_cpu_generator_tells_all_low_halves_apart_and_nothing_else():
    """What the seeds are built on: if torch comes to read more bits, nothing breaks, but this says so."""

    def draw(seed):
        return torch.empty(16).normal_(generator=torch.Generator().manual_seed(seed)).tolist()

    assert draw(5) == draw(5 + 2**32)
    assert draw(5) != draw(6)


def test_seeds_of_different_images_and_runs_differ():
    values = {block_seed(seed, index, "estimate", 0) for seed in range(50) for index in range(200)}
    assert len(values) == 50 * 200


def test_selection_and_estimation_draws_are_different_noise():
    """The classifier sees both stages of both images; no draw comes twice."""
    seen = []

    class Spy(nn.Module):
        def forward(self, image):
            seen.append(image.clone())
            return image.mean(dim=(2, 3))

    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Spy())
    images = torch.full((2, 2, 3, 3), 0.5)
    for stage in ("select", "estimate"):
        count_votes(model, images, [0, 1], n=300, stage=stage, seed=0)
    draws = torch.cat(seen).flatten(1)
    assert len(draws) == 2 * 2 * 300
    assert len(torch.unique(draws, dim=0)) == len(draws)


@pytest.mark.parametrize("n", [1, 99, 100, 101, 250, 1000])
def test_every_draw_is_counted_once(ars, n):
    votes = count_votes(ars(), torch.rand(3, 1, 4, 4), [0, 1, 2], n=n, stage="estimate", seed=0)
    assert votes.shape == (3, 2)
    assert votes.dtype == np.int64
    assert votes.sum(axis=1).tolist() == [n] * 3


def test_more_draws_begin_with_the_same_draws(network, images):
    """The votes of the first 250 draws are part of those of 400: a longer run repeats the shorter one."""
    short = count_votes(network, images, [0, 1, 2], n=250, stage="estimate", seed=3)
    longer = count_votes(network, images, [0, 1, 2], n=400, stage="estimate", seed=3)
    assert (longer >= short).all()
    assert (longer - short).sum(axis=1).tolist() == [150] * 3


@pytest.mark.parametrize("batch_size", [1, 100, 199, 300, 1000, 10_000])
def test_the_batch_size_does_not_change_the_votes(network, images, batch_size):
    expected = count_votes(network, images, [0, 1, 2], n=550, stage="estimate", seed=3, batch_size=500)
    votes = count_votes(network, images, [0, 1, 2], n=550, stage="estimate", seed=3, batch_size=batch_size)
    assert (votes == expected).all()
    assert (expected > 0).sum(axis=1).min() > 1


def test_order_and_company_do_not_change_the_votes(network, images):
    def count(places):
        return count_votes(network, images[places], [10 + i for i in places], n=550, stage="estimate", seed=3)

    together = count([0, 1, 2])
    assert (count([2, 0, 1]) == together[[2, 0, 1]]).all()
    for place in range(3):
        assert (count([place]) == together[[place]]).all()


def test_index_seed_and_stage_each_change_the_draws(network, images):
    def count(index=0, seed=0, stage="estimate"):
        return count_votes(network, images[:1], [index], n=1000, stage=stage, seed=seed).tolist()

    assert count() == count()
    assert count() != count(index=1)
    assert count() != count(seed=1)
    assert count() != count(stage="select")


def test_the_global_random_state_is_neither_read_nor_moved(network, images):
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    first = count_votes(network, images, [0, 1, 2], n=300, stage="estimate", seed=0)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(1)
    assert (count_votes(network, images, [0, 1, 2], n=300, stage="estimate", seed=0) == first).all()


class Stateful(nn.Module):
    """A classifier of a user's own, with dropout, and a part that is kept frozen in eval mode."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.BatchNorm2d(3)
        self.head = nn.Sequential(nn.Dropout(0.9), nn.Flatten(), nn.Linear(3 * 36, 4))

    def forward(self, image):
        assert not any(module.training for module in self.modules())
        return self.head(self.frozen(image))


@pytest.mark.parametrize("training", [True, False])
def test_every_module_keeps_its_training_flag(images, training):
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Stateful()).train(training)
    model.classifier.frozen.eval()
    before = {name: module.training for name, module in model.named_modules()}
    statistics = model.classifier.frozen.running_mean.clone()
    votes = count_votes(model, images, [0, 1, 2], n=100, stage="estimate", seed=0)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.equal(model.classifier.frozen.running_mean, statistics)
    assert votes.sum() == 300


def test_the_training_flags_come_back_after_an_error(images):
    class Broken(nn.Module):
        def forward(self, image):
            raise RuntimeError("out of memory")

    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Broken()).train()
    with pytest.raises(RuntimeError, match="out of memory"):
        count_votes(model, images, [0, 1, 2], n=100, stage="estimate", seed=0)
    assert all(module.training for module in model.modules())


def test_no_gradient_is_kept(network, images):
    kept = []
    network.classifier.register_forward_hook(lambda module, args, out: kept.append(out.requires_grad))
    count_votes(network, images, [0, 1, 2], n=100, stage="estimate", seed=0)
    assert kept == [False]


def test_a_device_batch_is_never_larger_than_asked_but_for_one_block(cohen):
    model = cohen()
    count_votes(model, torch.rand(4, 1, 2, 2), range(4), n=500, stage="estimate", seed=0, batch_size=777)
    assert max(model.classifier.calls) == 700
    assert all(size % BLOCK == 0 for size in model.classifier.calls)


def test_whoever_watches_hears_of_the_draws_that_count_batch_by_batch(cohen):
    heard, how = [], {"n": 250, "stage": "estimate", "seed": 0, "batch_size": 200}
    images = torch.rand(3, 1, 2, 2)
    with watched(heard.append):
        seen = count_votes(cohen(), images, range(3), **how)
    assert heard == [200, 150, 150, 200, 50]  # blocks of 100, 100 and 50 draws an image, two at a time
    assert seen.tolist() == count_votes(cohen(), images, range(3), **how).tolist()
    assert sum(heard) == 3 * 250  # and nothing after


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1)])
def test_a_negative_seed_or_index_is_refused_before_drawing(cohen, seed, index):
    model = cohen()
    with pytest.raises(ValueError, match="must be a whole number of at least 0"):
        count_votes(model, torch.rand(1, 1, 2, 2), [index], n=100, stage="estimate", seed=seed)
    assert not model.classifier.calls


@pytest.mark.parametrize(("seed", "index"), [(2**32, 0), (0, 2**32)])
def test_a_seed_or_index_that_could_share_its_noise_with_another_is_refused(cohen, seed, index):
    model = cohen()
    with pytest.raises(ValueError, match="must be below 2\\^32"):
        count_votes(model, torch.rand(1, 1, 2, 2), [index], n=100, stage="estimate", seed=seed)
    assert not model.classifier.calls


@pytest.mark.parametrize("n", [0, -5])
def test_no_draws_at_all_are_refused(cohen, n):
    with pytest.raises(ValueError, match="n must be at least 1"):
        count_votes(cohen(), torch.rand(1, 1, 2, 2), [0], n=n, stage="estimate", seed=0)


def test_bfloat16_reaches_the_networks_and_not_the_noise(images):
    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(108, 4)
            self.dtypes = []

        def forward(self, image):
            logits = self.linear(image.flatten(1))
            self.dtypes.append((image.dtype, logits.dtype))
            return logits

    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Spy())
    count_votes(model, images, [0, 1, 2], n=100, stage="estimate", seed=0, precision="bfloat16")
    count_votes(model, images, [0, 1, 2], n=100, stage="estimate", seed=0, precision="float32")
    assert model.classifier.dtypes == [(torch.float32, torch.bfloat16), (torch.float32, torch.float32)]


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="precision must be one of"):
        autocast(torch.device("cpu"), "float16")


@pytest.mark.parametrize("n", [200, 250])
def test_blocks_counted_apart_add_up_to_those_counted_together(network, images, n):
    together = count_votes(network, images, [0, 1, 2], n=300 + n, stage="estimate", seed=3)
    first = count_votes(network, images, [0, 1, 2], n=300, stage="estimate", seed=3)
    rest = count_votes(network, images, [0, 1, 2], n=n, first_block=3, stage="estimate", seed=3)
    assert (first + rest == together).all()
    assert rest.sum() == 3 * n


def test_a_negative_block_is_refused(cohen):
    with pytest.raises(ValueError, match="first_block at least 0"):
        count_votes(cohen(), torch.rand(1, 1, 2, 2), [0], n=100, first_block=-1, stage="estimate", seed=0)


@pytest.mark.parametrize("batch_size", [100, 300, None])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_images_with_a_model_each_share_their_batches(images, batch_size, precision):
    """The votes are those of each model alone; networks that see several images at once are called less often."""
    calls = []

    class Mean(nn.Module):
        def forward(self, x):
            calls.append(len(x))
            return x.mean(dim=(2, 3))

    network = Mean()
    models = [
        SmoothedClassifier(compose(Gaussian(sigma), Gaussian(2 * sigma)), minimum_variance, network)
        for sigma in (0.2, 0.7, 3.0)
    ]
    how = {"n": 250, "stage": "estimate", "seed": 3, "precision": precision, "batch_size": batch_size}
    alone = np.concatenate([count_votes(models[i], images[i : i + 1], [i], **how) for i in range(3)])
    before = len(calls)
    together = local_votes(models, images, [0, 1, 2], **how)
    assert (together == alone).all()
    assert len({*map(tuple, alone.tolist())}) == 3  # the noise levels make a difference
    assert len(calls) - before == {100: 9, 300: 3, None: 1}[batch_size]


def test_a_mask_of_an_images_own_model_is_in_eval_mode_too(images):
    class Mask(nn.Module):
        seen = ()

        def forward(self, x):
            self.seen = (*self.seen, self.training)
            return torch.full_like(x[:, :1], 0.5)

    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    masks = [Mask() for _ in range(3)]
    models = [
        SmoothedClassifier(compose(Gaussian(0.7), MaskedGaussian(0.7, mask)), minimum_variance, network).train()
        for mask in masks
    ]
    local_votes(models, images, [0, 1, 2], n=100, stage="estimate", seed=0)
    assert [mask.seen for mask in masks] == [(False,)] * 3
    assert all(module.training for model in models for module in model.modules())


def test_models_that_share_nothing_are_counted_one_by_one(images):
    torch.manual_seed(0)
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(3 * 36, 4)) for _ in range(3)]
    models = [SmoothedClassifier(compose(Gaussian(0.5)), last, network) for network in networks]
    how = {"n": 100, "stage": "estimate", "seed": 0}
    alone = np.concatenate([count_votes(models[i], images[i : i + 1], [i], **how) for i in range(3)])
    assert (local_votes(models, images, [0, 1, 2], **how) == alone).all()
    assert (count_votes(models[0], images, [0, 1, 2], **how) != alone).any()


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


def test_batchnorm_that_looks_at_the_batch_is_refused(images):
    """It makes a coin that all draws of a batch share: a fifth of such certificates were false at alpha = .001."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(),
                            nn.Linear(64, 2))  # fmt: skip
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, network)
    with pytest.raises(ValueError, match=r"classifier\.1 is a BatchNorm without running statistics.*no bound would"):
        certify(model, images, n_select=10, n_estimate=100, norm="l2", seed=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_logits_that_are_no_numbers_are_no_votes(images, precision):
    network = nn.Sequential(nn.Flatten(), nn.Linear(108, 3))
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, network)
    count_votes(model, images, [0, 1, 2], n=100, stage="select", seed=0, precision=precision)
    with torch.no_grad():
        network[1].bias[2] = torch.nan
    with pytest.raises(ValueError, match=r"logits that are no numbers \(NaN\)"):
        count_votes(model, images, [0, 1, 2], n=100, stage="select", seed=0, precision=precision)
