import pytest
import torch
from torch import nn

from ars.smoothing import Gaussian, MaskedGaussian, SmoothedClassifier, compose, last, minimum_variance
from ars.theory import ars_radius_linf, rs_radius_l2


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


class Spy(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, *args, **kwargs):
        self.seen.append((args, kwargs))
        return args[0].mean(dim=(2, 3))


def batch_norm_networks():
    torch.manual_seed(0)
    mask = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1), nn.Sigmoid())
    classifier = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 5)
    )
    model = SmoothedClassifier(compose(Gaussian(0.5), MaskedGaussian(0.5, mask)), minimum_variance, classifier)
    # statistics that are not the trivial ones
    for _ in range(3):
        model.train()(torch.rand(16, 3, 8, 8), generator(9))
    return model.eval()


def test_the_classifier_sees_the_combined_releases_and_nothing_else(smooth_mask, images):
    spy = Spy()
    model = SmoothedClassifier(compose(Gaussian(0.5), MaskedGaussian(0.5, smooth_mask())), minimum_variance, spy)
    model(images, generator(3))
    ((args, kwargs),) = spy.seen
    releases, combined = model.stages(images, generator(3))
    assert not kwargs
    assert len(args) == 1
    assert torch.equal(args[0], combined)
    assert torch.equal(combined, minimum_variance(releases))


def test_with_the_releases_held_fixed_the_logits_do_not_depend_on_the_image(fixed_step, images):
    x = images.clone().requires_grad_()
    m1, m2 = (torch.randn(images.shape, generator=generator(seed), requires_grad=True) for seed in (1, 2))
    model = SmoothedClassifier(compose(fixed_step(m1), fixed_step(m2)), minimum_variance, Spy())
    logits = model(x, generator())
    to_image, to_m1, to_m2 = torch.autograd.grad(logits.sum(), (x, m1, m2), allow_unused=True)
    assert to_image is None or not to_image.any()
    assert to_m1.any()
    assert to_m2.any()
    assert torch.equal(logits, model(1 - images, generator()))


def test_what_else_is_in_the_batch_does_not_change_the_logits(images):
    model = batch_norm_networks()
    with torch.no_grad():
        alone = model(images[:1], [generator(5)])
        first = model(images, [generator(seed) for seed in (5, 6, 7, 8)])
        last_of_three = model(images[[2, 3, 0]], [generator(seed) for seed in (6, 7, 5)])
        with_itself = model(images[[0, 0]], [generator(5), generator(5)])
    for other in (first[:1], last_of_three[2:], with_itself[:1], with_itself[1:]):
        assert torch.allclose(alone, other, rtol=0, atol=1e-4)
    assert not torch.allclose(first[:1], first[1:2], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("p_plus", "p_minus"), [(0.9, 0.1), (0.5001, 0.4999), (0.99999, 1e-6), (0.2, 0.1)])
def test_the_radius_is_the_closed_form_and_not_above_it(constant_mask, p_plus, p_minus):
    ars = SmoothedClassifier(compose(Gaussian(0.5), MaskedGaussian(0.7, constant_mask(1.0))), minimum_variance, Spy())
    radius = ars.radius(p_plus, p_minus, norm="linf", dim=192)
    closed = ars_radius_linf([0.5, 0.7], 192, p_plus, p_minus)
    assert radius == pytest.approx(closed, rel=1e-11)
    cohen = SmoothedClassifier(compose(Gaussian(0.5)), last, Spy())
    assert cohen.radius(p_plus, p_minus, norm="l2", dim=192) == pytest.approx(
        rs_radius_l2(0.5, p_plus, p_minus), rel=1e-11
    )


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SmoothedClassifier(compose(Gaussian(0.5)), last, torch.sigmoid), "classifier"),
        (lambda: SmoothedClassifier(Gaussian(0.5), last, Spy()), "compose"),
        (lambda: SmoothedClassifier(compose(Gaussian(0.5)), None, Spy()), "combine"),
        (lambda: MaskedGaussian(0.5, torch.sigmoid), "mask"),
    ],
)
def test_a_part_of_the_wrong_kind_is_named(make, named):
    with pytest.raises(TypeError, match=named):
        make()
