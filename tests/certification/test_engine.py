"""The engine: what it changes, and what it leaves alone."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency
from torch import nn

from ars.certification import sampling
from ars.certification.engine import StandIn, known_networks, prepared, ready
from ars.certification.sampling import count_votes
from ars.kernels.fold import fold
from ars.kernels.half import Half, ReflectConv
from ars.models import Normalize, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance


def disturbed(network, seed=0):
    """Random BatchNorm statistics, so that folding has something to fold."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.3, 0.3, generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
    return network.eval()


@pytest.fixture
def images():
    return torch.rand(3, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def votes(model, images, n=550, **options):
    how = {"n": n, "stage": "estimate", "seed": 3, **options}
    return count_votes(model, images, list(range(len(images))), **how)


@pytest.mark.parametrize("make", [lambda: small_cnn(10, width=8), lambda: cifar_resnet(8, 10), lambda: UNet(8)])
def test_folding_batchnorm_changes_nothing_but_rounding(make):
    torch.manual_seed(0)
    network = disturbed(make())
    x = torch.rand(4, 3, 24, 24)
    folded = fold(network)
    with torch.no_grad():
        assert torch.allclose(folded(x), network(x), rtol=1e-3, atol=1e-5)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert any(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@torch.inference_mode()
def test_known_networks_run_in_bf16_and_the_model_comes_back(network, images):
    parts = [network.classifier, network.mechanism.steps[1].mask]
    with prepared(network, images, draws=100, batch=100):
        assert isinstance(network.classifier, Half)
        # a sigmoid is not among the layers that we know, so that the mask stays as it is
        assert network.mechanism.steps[1].mask is parts[1]
    assert [network.classifier, network.mechanism.steps[1].mask] == parts


def test_the_model_comes_back_after_an_error(network, images):
    before = network.classifier
    with pytest.raises(RuntimeError, match="stop"), prepared(network, images, draws=100, batch=100):
        raise RuntimeError("stop")
    assert network.classifier is before


@torch.no_grad()
def test_preparation_is_cached_and_refreshed_when_weights_change(images):
    network = small_cnn(10, width=8)
    first = ready(network, images)
    assert ready(network, images) is first
    network[0].weight.mul_(2)
    second = ready(network, images)
    assert second is not first
    network[0].weight.data.mul_(0.5)  # counts no version: the sums tell
    third = ready(network, images)
    assert third is not second
    network[0].weight.data.neg_()  # of the same norm
    assert ready(network, images) is not third
    third = ready(network, images)
    weight = network[-1].weight
    weight.data[[0, 1]] = weight.data[[1, 0]]  # of the same numbers
    assert ready(network, images) is not third
    third = ready(network, images)
    network[1].running_mean.add_(1)
    fourth = ready(network, images)
    assert fourth is not third
    assert ready(network, torch.rand(1, 3, 8, 8)) is not fourth


def test_preparation_is_refreshed_when_a_part_changes():
    network = nn.Sequential(nn.MaxPool2d(8), nn.Flatten(), nn.Linear(3, 2))
    image = torch.rand(1, 3, 8, 8)
    first = ready(network, image)
    network[0] = nn.AvgPool2d(8)
    second = ready(network, image)
    network[0].ceil_mode = True
    assert len({id(first), id(second), id(ready(network, image))}) == 3


@torch.no_grad()
def test_a_layer_that_is_used_twice_stays_where_it_is():
    relu = nn.ReLU()
    network = nn.Sequential(nn.Conv2d(3, 4, 1), relu, nn.Conv2d(4, 2, 1), relu, nn.BatchNorm2d(2)).eval()
    network[2].weight.neg_()  # the ReLU cuts most of it
    network[4].running_mean.fill_(0.3)
    assert list(known_networks(nn.ModuleList([network])))
    image = torch.rand(2, 3, 6, 6)
    assert torch.allclose(fold(network)(image), network(image), atol=1e-6)
    assert torch.allclose(ready(network, image).network(image).float(), network(image), atol=0.05)


def test_layers_with_weights_that_stand_in_several_places_are_left_alone():
    conv = nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect")
    assert not list(known_networks(nn.ModuleList([nn.Sequential(conv, nn.ReLU(), conv, nn.BatchNorm2d(3))])))


def test_networks_of_ours_that_were_changed_are_left_alone():
    def known(network):
        return any(child is network for _, _, child in known_networks(nn.ModuleList([network])))

    def changed(network, name, part):
        network.set_submodule(name, part)
        return network

    assert known(cifar_resnet(8, 4, block_scale=0.0))
    assert known(UNet(4))
    assert known(resnet50(4))
    assert not known(changed(cifar_resnet(8, 4), "conv1", nn.Conv2d(3, 16, 5, padding=2, bias=False)))
    assert not known(changed(cifar_resnet(8, 4), "layer2.0.bn1", nn.GroupNorm(4, 32)))
    assert not known(changed(UNet(4), "encoders.0.3", nn.LeakyReLU(0.2)))
    assert not known(changed(cifar_resnet(8, 4), "fc", nn.Sequential(nn.Dropout(), nn.Linear(64, 4))))
    assert not known(changed(resnet50(4), "fc", nn.Identity()))
    assert not known(changed(UNet(4), "encoders.0", nn.Conv2d(3, 4, 1)))
    twice = cifar_resnet(14, 4)
    twice.layer1[1] = twice.layer1[0]
    assert not known(twice)
    patched = cifar_resnet(8, 4)
    patched.layer1[0].forward = lambda x: x
    assert not known(patched)


@pytest.mark.parametrize("stride", [1, 2])
def test_reflect_padding_is_torchs(stride):
    conv = nn.Conv2d(3, 5, 3, stride, padding=1, padding_mode="reflect")
    x = torch.rand(2, 3, 6, 8)
    wanted = conv(x)
    assert torch.allclose(ReflectConv(conv)(x), wanted, atol=1e-6)


def test_the_last_layer_stays_in_float32_and_exact():
    network = small_cnn(10, width=8)
    half = Half(network)
    logits = half(torch.rand(2, 3, 8, 8))
    assert logits.dtype == torch.float32
    assert torch.equal(half.network[-1].linear.weight, network[-1].weight)
    assert half.network[0].weight.dtype == torch.bfloat16


def test_a_network_is_compiled_for_one_size_of_batch_at_a_time(monkeypatch):
    asked = []
    monkeypatch.setattr("ars.kernels.half.can_compile", lambda: True)
    monkeypatch.setattr(torch, "compile", lambda network, dynamic: lambda x: asked.append(len(x)) or network(x))
    half = Half(small_cnn(10, width=8))
    plain = [half(torch.ones(size, 3, 8, 8)) for size in (2, 3, 4)]
    half.compile_for(2)
    half.compile_for(4)
    made = dict(half.compiled)
    half.compile_for(2)
    assert half.compiled == made
    again = [half(torch.ones(size, 3, 8, 8)) for size in (2, 3, 4)]
    assert asked == [2, 4]
    assert all(torch.equal(one, two) for one, two in zip(plain, again, strict=True))


def test_draws_are_counted_for_each_size_of_batch(images, monkeypatch):
    """A batch of each call counts what it is to draw; on a CPU nothing is compiled, however much that is."""
    monkeypatch.setattr("ars.certification.engine.COMPILE_AFTER", 0)
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, small_cnn(4, width=8))
    votes(model, images[:1], n=100, precision="bfloat16")
    votes(model, images[:1], n=1000, precision="bfloat16", batch_size=300)
    votes(model, images[:1], n=150, precision="bfloat16", batch_size=300)
    made, area = ready(model.classifier, images[:1]), images[0, 0].numel()
    assert made.pixels == {100: 100 * area, 300: 1000 * area, 200: 200 * area}
    assert made.network.compiled == {}


def test_preparation_is_made_once_for_many_calls(network, images, monkeypatch):
    made = []
    monkeypatch.setattr("ars.certification.engine.Half", lambda part: made.append(part) or Half(part))
    for block in range(4):
        votes(network, images, n=100, precision="bfloat16", first_block=block)
    assert made == [network.classifier]


class Own(nn.Module):
    """A user's network, with a known one inside and a mode of its own."""

    def __init__(self):
        super().__init__()
        self.inner = small_cnn(4, width=8)
        self.frozen = nn.BatchNorm2d(3).eval()
        self.seen = []

    def forward(self, image):
        self.seen.append((type(self.inner), self.frozen.training, image.dtype))
        return self.inner(self.frozen(image))


def test_a_users_module_runs_itself_and_only_known_parts_of_it_are_replaced():
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Own())
    votes(model, torch.rand(1, 3, 8, 8), n=100, precision="bfloat16")
    votes(model, torch.rand(1, 3, 8, 8), n=100, precision="float32")
    assert model.classifier.seen == [(StandIn, False, torch.float32), (nn.Sequential, False, torch.float32)]
    assert type(model.classifier.inner) is nn.Sequential


class LookingInside(nn.Module):
    """Asks its parts for their layers, one by one, by place and by name."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        self.heads = nn.ModuleList([nn.Sequential(nn.Flatten(), nn.Linear(256, 5))])
        self.whole = nn.Sequential(nn.Linear(5, 5))
        self.seen = []

    def forward(self, image):
        self.seen.append((type(self.body), len(self.body), self.body[0].weight.dtype, self.body.training))
        for layer in self.body:
            image = layer(image)
        return self.whole(self.heads[0][1](self.heads[0][0](image)))


def test_a_users_module_may_look_into_the_parts_that_were_replaced():
    torch.manual_seed(0)
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, LookingInside())
    half = votes(model, torch.rand(1, 3, 8, 8), n=200, precision="bfloat16")
    assert {StandIn} == {kind for kind, *_ in model.classifier.seen}
    assert {(2, torch.float32, False)} == {rest for _, *some in model.classifier.seen for rest in [tuple(some)]}
    assert half.sum() == 200
    standing = StandIn(Half(model.classifier.whole), model.classifier.whole)
    assert type(standing.made) is Half
    assert list(standing.parameters()) == list(standing.made.parameters())
    assert not hasattr(standing, "nothing")


class Casting(nn.Module):
    """A network that is kept in another precision, and casts what goes in and out."""

    def __init__(self, dtype, network):
        super().__init__()
        self.dtype, self.network = dtype, network.to(dtype)

    def forward(self, image):
        return self.network(image.to(self.dtype)).float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize(
    "make", [lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)), lambda: UNet(4)]
)
def test_a_network_that_is_kept_in_another_precision_runs_itself(dtype, make):
    torch.manual_seed(0)
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Casting(dtype, make()))
    assert list(known_networks(model)) == []
    assert list(known_networks(model.float()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_votes_of_a_network_in_another_precision_are_those_of_float32_but_for_rounding(dtype, images):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    full = votes(SmoothedClassifier(compose(Gaussian(0.5)), last, network), images, n=200)
    half = votes(
        SmoothedClassifier(compose(Gaussian(0.5)), last, Casting(dtype, network)), images, n=200, precision="bfloat16"
    )
    assert np.abs(half - full).sum() <= 0.1 * full.sum()


class ByKeyword(nn.Module):
    """Gives its parts their images by name."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()), cifar_resnet(8, 4)

    def forward(self, image):
        return self.head(x=self.body(input=image)[:, :3])


def test_a_users_module_may_name_what_it_gives_its_parts(images):
    torch.manual_seed(0)
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, ByKeyword())
    half = votes(model, images, n=100, precision="bfloat16")
    assert np.abs(half - votes(model, images, n=100, precision="float32")).sum() <= 0.1 * half.sum()


def test_copies_of_a_network_on_several_gpus_are_left_alone():
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, nn.DataParallel(cifar_resnet(8, 4)))
    assert list(known_networks(model)) == []


class Headed(nn.Module):
    """Convolutions, then a head of plain layers that reads features, on tokens of them or on all."""

    def __init__(self, *, tokens):
        super().__init__()
        self.tokens, self.body = tokens, nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))

    def forward(self, image):
        features = self.body(image).flatten(2).transpose(1, 2)
        return self.head(features).mean(1) if self.tokens else self.head(features.mean(1))


@pytest.mark.parametrize("tokens", [False, True])
def test_plain_layers_on_features_run_in_bf16_too(tokens, images):
    torch.manual_seed(0)
    model = SmoothedClassifier(compose(Gaussian(0.5)), last, Headed(tokens=tokens))
    half = votes(model, images, n=200, precision="bfloat16")
    assert np.abs(half - votes(model, images, n=200, precision="float32")).sum() <= 0.1 * half.sum()


def test_subclasses_and_hooked_networks_are_left_alone():
    class Mine(UNet):
        pass

    hooked = small_cnn(4, width=8)
    hooked[0].register_forward_hook(lambda module, args, out: None)
    model = SmoothedClassifier(compose(Gaussian(0.5), MaskedGaussian(0.5, Mine(4))), minimum_variance, hooked)
    replaced = [child for _, _, child in known_networks(model)]
    assert hooked not in replaced
    assert not any(isinstance(child, UNet) for child in replaced)


def test_votes_in_bf16_and_float32_agree_in_distribution():
    torch.manual_seed(0)
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), disturbed(small_cnn(4, width=8)))
    mechanism = compose(Gaussian(0.7), MaskedGaussian(0.7, disturbed(UNet(4))))
    model = SmoothedClassifier(mechanism, minimum_variance, classifier)
    image = torch.rand(1, 3, 16, 16)
    with torch.no_grad():  # statistics of such images, so that the noise matters, and no class far ahead
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None
        model.train()(image.expand(200, -1, -1, -1), torch.Generator().manual_seed(0))
        logits = model.eval()(image.expand(500, -1, -1, -1), torch.Generator().manual_seed(0))
        classifier[1][-1].bias -= logits.mean(dim=0)
    half = votes(model, image, n=4000, precision="bfloat16")[0]
    full = votes(model, image, n=4000, first_block=40)[0]
    table = np.stack([half, full])[:, (half + full) >= 10]
    assert table.shape[1] > 1
    assert chi2_contingency(table).pvalue > 1e-4


def test_the_loop_never_waits_for_the_device(network, images, monkeypatch):
    """Nothing in the loop asks a tensor for its value: the counts are fetched once, at the end."""
    asked = []
    for name in ("item", "tolist", "__bool__", "__int__", "__float__", "cpu", "numpy", "nonzero"):
        real = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda self, *args, real=real, name=name: asked.append(name) or real(self, *args)
        )
    for n in (100, 3000):
        asked.clear()
        with sampling.masks_checked_at_the_end():
            votes(network, images, n=n, batch_size=300)
        assert asked == [
            "cpu",
            "numpy",
            "__bool__",
            "tolist",
        ]  # then whether logits were numbers, and the range of all masks
