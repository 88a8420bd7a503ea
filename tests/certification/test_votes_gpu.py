"""Votes on a CUDA device: fused kernels against the plain loop, and a loop that waits for nothing."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency
from torch import nn

from ars.certification import votes
from ars.certification.memory import limit_memory
from ars.certification.model_copy import AccelerationWarning, copy_model, fast_copy
from ars.certification.votes import VoteCounter, block_seed
from ars.kernels.compiled import Half
from ars.methods.adaptive import adaptive
from ars.methods.cohen import cohen
from ars.models import Normalize, UNet, cifar_resnet, small_cnn
from ars.smoothing import Gaussian, compose

from .user_parts import Function

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def exact_reference():
    torch.manual_seed(0)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@torch.no_grad()
def smoothed(size, *, masked=True):
    """Networks with BatchNorm statistics of noisy images, of which no class is far ahead on one image."""
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), cifar_resnet(20, 10))
    model = adaptive(classifier, UNet(32), sigma=0.5) if masked else cohen(classifier, sigma=0.5)
    for module in model.cuda().modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            module.weight.uniform_(0.5, 1.0)
            module.bias.normal_(0, 0.1)
    image, generator = torch.rand(1, 3, size, size, device="cuda"), torch.Generator("cuda").manual_seed(0)
    model.train()(torch.rand(16, 3, size, size, device="cuda"), generator)
    logits = model.eval()(image.expand(500, -1, -1, -1), generator)
    classifier[1].fc.bias -= logits.mean(dim=0)
    return model, image


def counter_of(model, images, precision="bfloat16", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccelerationWarning)
        made = copy_model(model) if precision == "float32" else fast_copy(copy_model(model), images)
    return VoteCounter(made, precision, **options)


def draw(counter, images, n, **options):
    mechanisms = [counter.model.mechanism] * len(images)
    return counter(mechanisms, images, list(range(len(images))), n=n, stage="estimate", seed=0, **options)


@torch.inference_mode()
def plain(model, image, draws):
    """The loop as the field runs it."""
    generator = torch.Generator("cuda").manual_seed(1)
    labels = [model(image.repeat(100, 1, 1, 1), generator).argmax(1).cpu() for _ in range(draws // 100)]
    return np.bincount(torch.cat(labels).numpy(), minlength=10)


@torch.inference_mode()
def autocast_votes(model, image, draws):
    """The counter's draws in torch's own bf16."""
    labels = []
    for block in range(draws // 100):
        generator = torch.Generator("cuda").manual_seed(block_seed(0, 0, "estimate", block))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            labels.append(model(image.repeat(100, 1, 1, 1), generator).argmax(1))
    return np.bincount(torch.cat(labels).cpu().numpy(), minlength=10)


@pytest.mark.false_alarm(1e-7)
@pytest.mark.parametrize(("masked", "size"), [(True, 32), (False, 32), (True, 64)])
def test_votes_agree_with_the_plain_loop_in_distribution(masked, size):
    model, image = smoothed(size, masked=masked)
    counts = draw(counter_of(model, image, "float32"), image, 20_000)[0]
    expected = plain(model, image, 20_000)
    table = np.stack([counts, expected])[:, (counts + expected) >= 10]
    assert table.shape[1] > 2
    assert chi2_contingency(table).pvalue > 1e-8
    # on the same noise, rounding to bf16 moves some random logits past each other; kernels do it no more than torch
    half = draw(counter_of(model, image), image, 20_000)[0]
    eager = autocast_votes(model, image, 20_000)
    moved, usual = (np.abs(some - counts).sum() / 40_000 for some in (half, eager))
    assert moved <= 2 * usual + 0.02


def test_the_batch_size_moves_no_votes_but_by_rounding():
    model, image = smoothed(32)
    small, large = (draw(counter_of(model, image, batch_size=size), image, 10_000)[0] for size in (300, None))
    assert np.abs(small - large).sum() <= 100


def test_images_with_noise_of_their_own_share_batches_in_kernels():
    model, image = smoothed(32, masked=False)
    images = torch.cat([image, 1 - image, image.flip(-1)])
    counter, how = counter_of(model, image), {"n": 10_000, "stage": "estimate", "seed": 0}
    mechanisms = [compose(Gaussian(sigma)) for sigma in (0.25, 0.5, 1.0)]
    together = counter(mechanisms, images, [0, 1, 2], **how)
    for index, mechanism in enumerate(mechanisms):
        alone = counter([mechanism], images[index : index + 1], [index], **how)[0]
        assert np.abs(together[index] - alone).sum() <= 100


def test_what_has_no_kernels_is_compiled_once_that_pays(monkeypatch):
    pytest.importorskip("triton")
    model = cohen(small_cnn(10), sigma=0.25).cuda()
    image = torch.rand(1, 3, 32, 32, device="cuda")
    counter = counter_of(model, image, batch_size=1000)
    before = draw(counter, image, 1500)
    [half] = [part for part in counter.model.modules() if isinstance(part, Half)]
    assert half.compiled == {}
    monkeypatch.setattr(votes, "COMPILE_AFTER", 0)
    counter.expect(10_000, image)
    assert list(half.compiled) == [1000]
    assert np.abs(draw(counter, image, 1500) - before).sum() <= 30


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan")])
def test_a_bad_mask_is_told_at_the_end(value):
    model, image = smoothed(32)
    bad = adaptive(model.classifier, Function(lambda x: torch.full_like(x[:, :1], value)), sigma=0.5)
    with pytest.raises(ValueError, match="mask"):
        draw(VoteCounter(bad.eval(), "bfloat16"), image, 1000)


@pytest.mark.parametrize("change", ["hook", "forward", "layer"])
def test_kernels_are_not_used_for_a_network_that_was_changed_by_hand(change):
    model, image = smoothed(32, masked=False)
    network = model.classifier[1]
    if change == "hook":
        network.layer1[0].register_forward_hook(lambda part, args, out: out.flip(-1) - 1)
    elif change == "forward":
        network.layer1[0].forward = lambda x: 3 - x
    else:
        network.layer2[0].bn1 = nn.GroupNorm(4, 32).cuda()
    copy = copy_model(model)
    with pytest.warns(AccelerationWarning):
        assert fast_copy(copy, image) is copy


def test_the_loop_never_waits_for_the_device():
    model, image = smoothed(32)
    counter = counter_of(model, image, batch_size=1000)
    draw(counter, image, 1000)
    activities = list(torch.profiler.supported_activities())
    waits = []
    for n in (1000, 10_000):
        with torch.profiler.profile(activities=activities) as profile:
            draw(counter, image, n)
        events = profile.key_averages()
        waits.append(sum(e.count for e in events if "Synchronize" in e.key or e.key == "aten::item"))
    assert waits[1] <= waits[0] + 1


def test_a_batch_that_does_not_fit_is_halved_and_the_peak_stays_below_the_limit():
    model, image = smoothed(64)
    counter = counter_of(model, image)
    expected = draw(counter, image, 5000)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    limit = torch.cuda.memory_reserved() / 2**30 + 1.0  # what other tests hold in pieces is not to be had
    total = torch.cuda.get_device_properties(0).total_memory / 2**30
    failed, combine = [], counter.model.combine

    def hungry(releases):
        """2.5 MB per draw, of which the estimate of what a batch takes knows nothing."""
        try:
            torch.empty(len(releases[0].value) * 5 * 2**19, dtype=torch.uint8, device=image.device)
        except torch.OutOfMemoryError:
            failed.append(len(releases[0].value))
            raise
        return combine(releases)

    try:
        limit_memory(image.device, limit)
        counts = draw(counter, image, 5000)
        counter.model.combine = hungry
        forced = draw(counter, image, 5000)
        assert torch.cuda.max_memory_allocated() / 2**30 <= limit
    finally:
        limit_memory(image.device, total)
    assert failed
    for some in (counts, forced):
        assert some.sum() == 5000
        assert np.abs(some - expected).sum() <= 100
