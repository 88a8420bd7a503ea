"""The plain wrapper: what it computes, and that an attack library runs on it."""

import pytest
import torch
from torch.nn import functional as F

from ars import adaptive, cohen
from ars.audit.plain_model import PlainModel
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last

from .test_attack import Linear, Saliency, direction, distance, images

__all__ = ["direction", "images"]


def test_it_is_the_mean_softmax_over_the_draws_of_its_generator(direction, images):
    model = cohen(Linear(direction), sigma=0.3).eval()
    plain = PlainModel(model, draws=3, seed=5)
    generator = torch.Generator().manual_seed(5)
    for _ in range(2):  # every call has fresh noise
        logits = model(images.repeat_interleave(3, dim=0), generator)
        expected = torch.stack([F.softmax(part, dim=1).mean(dim=0) for part in logits.split(3)])
        torch.testing.assert_close(plain(images).exp(), expected)


def test_it_is_differentiable_through_the_mask_and_leaves_the_model_alone(direction, images):
    model = adaptive(Linear(direction), Saliency(), sigma=0.3)
    plain = PlainModel(model, draws=8)
    moved = images.clone().requires_grad_()
    plain(moved)[:, 0].sum().backward()
    assert ((moved.grad * direction).sum(dim=(1, 2, 3)) > 0).all()
    assert model.training
    assert not plain.smoothed.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_rounded_noise_is_refused(direction):
    with pytest.raises(ValueError, match="exact"):
        PlainModel(SmoothedClassifier(compose(Gaussian(0.3, exact=True)), last, Linear(direction)))


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_foolbox_finds_what_there_is_to_find_and_nothing_within_a_robust_radius(norm, direction, images):
    """A linear score can fall by epsilon times the dual norm of its direction, and by no more."""
    foolbox = pytest.importorskip("foolbox")
    model = cohen(Linear(direction), sigma=0.02).eval()
    attacked = foolbox.PyTorchModel(PlainModel(model, draws=16), bounds=(0, 1))
    attack = foolbox.attacks.LinfPGD() if norm == "linf" else foolbox.attacks.L2PGD()
    score = ((images - 0.5) * direction).sum(dim=(1, 2, 3))
    edges = score / (direction.abs().sum() if norm == "linf" else direction.norm())
    epsilons = [0.5 * edges.min().item(), 1.5 * edges.max().item()]
    labels = torch.zeros(len(images), dtype=torch.long)
    _, (near, _), found = attack(attacked, images, labels, epsilons=epsilons)
    assert (distance(near, images, norm) <= epsilons[0] * (1 + 1e-4) + 1e-7).all()
    assert not found[0].any()
    assert found[1].all()
