"""The engine on a CUDA device against plain float32: kernels in bf16, votes, checks and memory."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency
from torch import nn

from ars.certification.engine import prepared, ready
from ars.certification.memory import limit_memory
from ars.certification.sampling import block_seed, count_votes, local_votes
from ars.kernels.half import Half
from ars.methods import adaptive, cohen
from ars.models import Normalize, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def exact_reference():
    torch.manual_seed(0)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


@torch.no_grad()
def disturbed(network, size):
    """BatchNorm statistics of random images, then disturbed, so that folding has something to fold."""
    network = network.cuda()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            module.weight.uniform_(0.5, 1.0)
            module.bias.normal_(0, 0.1)
    network.train()(torch.rand(16, 3, size, size, device="cuda"))
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean += 0.1 * torch.randn_like(module.running_mean)
            module.running_var *= torch.empty_like(module.running_var).uniform_(0.8, 1.25)
    return network.eval()


def smoothed(size, *, masked=True, depth=20):
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), disturbed(cifar_resnet(depth, 10), size)).cuda()
    image = torch.rand(1, 3, size, size, device="cuda")
    model = adaptive(classifier, disturbed(UNet(32), size), sigma=0.5) if masked else cohen(classifier, sigma=0.5)
    with torch.no_grad():  # no class is far ahead
        generator = torch.Generator("cuda").manual_seed(0)
        classifier[1].fc.bias -= model.cuda().eval()(image.expand(500, -1, -1, -1), generator).mean(dim=0)
    return model, image


@torch.inference_mode()
def plain(model, image, draws):
    """The loop as the field runs it."""
    generator = torch.Generator("cuda").manual_seed(1)
    labels = [model.eval()(image.repeat(100, 1, 1, 1), generator).argmax(1).cpu() for _ in range(draws // 100)]
    return np.bincount(torch.cat(labels).numpy(), minlength=10)


@torch.inference_mode()
def autocast_votes(model, image, draws):
    """The engine's draws in torch's own bf16."""
    votes = []
    for block in range(draws // 100):
        generator = torch.Generator("cuda").manual_seed(block_seed(0, 0, "estimate", block))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            votes.append(model.eval()(image.repeat(100, 1, 1, 1), generator).argmax(1))
    return np.bincount(torch.cat(votes).cpu().numpy(), minlength=10)


def agree(counts, expected):
    table = np.stack([counts, expected])[:, (counts + expected) >= 10]
    assert table.shape[1] > 2
    assert chi2_contingency(table).pvalue > 1e-4


@pytest.mark.parametrize(
    ("make", "size", "tolerance"),
    [
        (lambda: UNet(32), 32, 0.02),
        (lambda: UNet(32), 64, 0.02),
        (lambda: UNet(16), 224, 0.02),
        (lambda: UNet(32), 48, 0.02),
        (lambda: cifar_resnet(20, 10), 32, 0.1),
        (lambda: cifar_resnet(20, 10), 96, 0.1),
        (lambda: cifar_resnet(110, 10), 32, 0.3),
        (lambda: resnet50(10), 224, 0.15),
        (lambda: resnet50(10), 64, 0.15),
    ],
)
@torch.inference_mode()
def test_kernels_agree_with_float32_on_every_image(make, size, tolerance):
    pytest.importorskip("triton")
    network = disturbed(make(), size)
    x = torch.rand(150, 3, size, size, device="cuda")
    fast = ready(network, x).network
    assert not isinstance(fast, Half)
    out = fast(x)
    out.fill_(float("nan"))  # the allocator hands the same block out again
    del out
    got = fast(x).float()
    wanted = torch.cat([network(part) for part in x.split(50)])
    off = (got - wanted).flatten(1).norm(dim=1) / wanted.flatten(1).norm(dim=1)
    assert off.isfinite().all()
    assert off.max() <= tolerance


@torch.inference_mode()
def test_a_network_without_kernels_runs_in_half_precision():
    network = disturbed(UNet(64), 48)
    x = torch.rand(150, 3, 48, 48, device="cuda")
    fast = ready(network, x).network
    assert isinstance(fast, Half)
    assert (fast(x).float() - network(x)).abs().max() < 0.02


@pytest.mark.parametrize(("make", "size"), [(lambda: small_cnn(10), 32), (lambda: resnet50(10), 64)])
@torch.inference_mode()
def test_what_has_long_enough_to_work_is_compiled_and_answers_the_same(make, size, monkeypatch):
    pytest.importorskip("triton")
    model = cohen(disturbed(make(), size), sigma=0.25)
    image = torch.rand(1, 3, size, size, device="cuda")
    draw = partial(count_votes, model, image, [0], n=1500, stage="estimate", seed=0, precision="bfloat16")
    draw(batch_size=1000)
    network, x = ready(model.classifier, image).network, torch.rand(1000, 3, size, size, device="cuda")
    plain = network(x)
    halves = [part for part in network.modules() if isinstance(part, Half)]
    assert [half.compiled for half in halves] == [{}]
    monkeypatch.setattr("ars.certification.engine.COMPILE_AFTER", 0)
    draw(batch_size=1000)
    assert ready(model.classifier, image).network is network
    assert list(halves[0].compiled) == [1000]
    assert (network(x) - plain).norm() <= 0.02 * plain.norm()


@pytest.mark.parametrize(("masked", "size"), [(True, 32), (False, 32), (True, 64)])
def test_votes_agree_with_the_plain_loop_in_distribution(masked, size):
    model, image = smoothed(size, masked=masked)
    counts = count_votes(model, image, [0], n=20_000, stage="estimate", seed=0, precision="float32")[0]
    agree(counts, plain(model, image, 20_000))
    # on the same noise, rounding to bf16 moves some random logits past each other; kernels do it no more than torch
    half = count_votes(model, image, [0], n=20_000, stage="estimate", seed=0, precision="bfloat16")[0]
    eager = autocast_votes(model, image, 20_000)
    moved, usual = (np.abs(votes - counts).sum() / 40_000 for votes in (half, eager))
    print(f"moved by the kernels {moved:.4f}, by eager bf16 {usual:.4f}")
    assert moved <= 2 * usual + 0.02


def test_the_batch_size_moves_no_votes_but_by_rounding():
    model, image = smoothed(32)
    how = {"n": 10_000, "stage": "estimate", "seed": 0, "precision": "bfloat16"}
    small, large = (count_votes(model, image, [0], batch_size=size, **how)[0] for size in (300, None))
    assert np.abs(small - large).sum() <= 100


def test_images_with_noise_of_their_own_share_batches_in_kernels():
    model, image = smoothed(32, masked=False)
    images = torch.cat([image, 1 - image, image.flip(-1)])
    models = [SmoothedClassifier(compose(Gaussian(sigma)), last, model.classifier) for sigma in (0.25, 0.5, 1.0)]
    how = {"n": 10_000, "stage": "estimate", "seed": 0, "precision": "bfloat16"}
    together = local_votes(models, images, [0, 1, 2], **how)
    for index, local in enumerate(models):
        alone = count_votes(local, images[index : index + 1], [index], **how)[0]
        assert np.abs(together[index] - alone).sum() <= 100


class TooLarge(nn.Module):
    """A mask that leaves [0, 1], or is NaN."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, image):
        return torch.full_like(image[:, :1], self.value)


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan")])
def test_a_bad_mask_raises_the_same_error_at_the_end(value):
    model, image = smoothed(32)
    mechanism = compose(Gaussian(0.5), MaskedGaussian(0.5, TooLarge(value)))
    bad = SmoothedClassifier(mechanism, minimum_variance, model.classifier).cuda()
    with pytest.raises(ValueError, match=r"the mask must lie in \[0, 1\]"):
        count_votes(bad, image, [0], n=1000, stage="estimate", seed=0, precision="bfloat16")


def test_the_loop_never_waits_for_the_device():
    model, image = smoothed(32)
    how = {"stage": "estimate", "seed": 0, "precision": "bfloat16", "batch_size": 1000}
    count_votes(model, image, [0], n=1000, **how)
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as few:
        count_votes(model, image, [0], n=1000, **how)
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as many:
        count_votes(model, image, [0], n=10_000, **how)

    def waits(profiler):
        return sum(e.count for e in profiler.key_averages() if "Synchronize" in e.key or e.key == "aten::item")

    assert waits(many) <= waits(few) + 1


def test_a_batch_that_does_not_fit_is_halved_and_the_peak_stays_below_the_limit():
    model, image = smoothed(64)
    how = {"n": 5000, "stage": "estimate", "seed": 0, "precision": "bfloat16"}
    expected = count_votes(model, image, [0], **how)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    limit = torch.cuda.memory_reserved() / 2**30 + 1.0  # what other tests hold in pieces is not to be had
    total = torch.cuda.get_device_properties(0).total_memory / 2**30
    try:
        limit_memory(image.device, limit)
        counts = count_votes(model, image, [0], **how)
        # and with no help from the estimate of what a batch takes
        forced = Hungry(model)
        hungry = count_votes(forced, image, [0], **how)
        assert torch.cuda.max_memory_allocated() / 2**30 <= limit
    finally:
        limit_memory(image.device, total)
    assert forced.failed
    for votes in (counts, hungry):
        assert votes.sum() == 5000
        assert np.abs(votes - expected).sum() <= 100


class Hungry(SmoothedClassifier):
    """The same model with an appetite: 2.5 MB a draw."""

    def __init__(self, model):
        super().__init__(model.mechanism, model.combine, model.classifier)
        self.failed = False

    def forward(self, x, generator):
        try:
            torch.empty(len(x) * 5 * 2**19, dtype=torch.uint8, device=x.device)
        except torch.OutOfMemoryError:
            self.failed = True
            raise
        return super().forward(x, generator)


def test_the_model_is_as_it_was_afterwards():
    model, image = smoothed(32)
    before = (model.combine, model.classifier, list(model.modules()))
    with torch.inference_mode(), prepared(model, image, draws=100, batch=100):
        assert model.combine is not before[0]
    assert (model.combine, model.classifier, list(model.modules())) == before
