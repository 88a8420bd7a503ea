"""Attacks stay in their ball, find what there is to find, and leave the model as it was."""

import math

import pytest
import torch
from torch import nn

from ars import adaptive, cohen
from ars.audit.attack import KINDS, Attacker, AttackSettings
from ars.smoothing import Gaussian, SmoothedClassifier, compose, last

QUICK = AttackSettings(steps=10, draws=16, restarts=2)


class Linear(nn.Module):
    """Two classes; class 0 has the score of the images along a direction, less a half of it all."""

    def __init__(self, direction):
        super().__init__()
        self.direction = nn.Parameter(direction)

    def forward(self, image):
        score = ((image - 0.5) * self.direction).sum(dim=(1, 2, 3))
        return torch.stack([score, -score], dim=1)


class Saliency(nn.Module):
    def forward(self, image):
        return image.mean(dim=1, keepdim=True).sigmoid()


@pytest.fixture
def direction():
    return torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def images(direction):
    return 0.5 + 0.1 * torch.rand(5, 1, 1, 1, generator=torch.Generator().manual_seed(1)) * direction.sign()


LABELS, RADII = torch.zeros(5, dtype=torch.long), torch.tensor([0.01, 0.02, 0.05, 0.0, 0.3])


def distance(moved, images, norm):
    order = 2 if norm == "l2" else math.inf
    return torch.linalg.vector_norm((moved - images).flatten(1), ord=order, dim=1)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("kind", KINDS)
def test_candidates_are_images_within_each_radius(kind, norm, direction, images):
    model = cohen(Linear(direction), sigma=0.3).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = Attacker(model, norm, QUICK)(kind, images, LABELS, RADII)
    assert (distance(found, images, norm) <= RADII * (1 + 1e-5) + 1e-7).all()
    assert found.min() >= 0
    assert found.max() <= 1
    assert (distance(found, images, norm)[RADII > 0] > 0).all()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("kind", "share"), [("gradient", 0.99), ("transfer", 0.99), ("search", 0.2)])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_worst_direction_is_found(kind, share, norm, direction, images):
    """For a linear score it is known: minus the direction (L2), or its sign (Linf)."""
    model = cohen(Linear(direction), sigma=0.3).eval()
    radii = torch.full((5,), 0.05)
    found = Attacker(model, norm, AttackSettings(steps=20, draws=64, restarts=1))(kind, images, LABELS, radii)
    worst = 0.05 * (direction.norm() if norm == "l2" else direction.abs().sum())
    lost = -((found - images) * direction).sum(dim=(1, 2, 3))
    assert (lost >= share * worst).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_passes_through_mask_and_average(kind, direction, images):
    model = adaptive(Linear(direction), Saliency(), sigma=0.3).eval()
    found = Attacker(model, "linf", QUICK)(kind, images, LABELS, torch.full((5,), 0.05))
    assert (((found - images) * direction).sum(dim=(1, 2, 3)) < 0).all()


def test_the_first_start_is_aimed_at_the_runner_up(direction, images):
    """Three classes: the one that is aimed at gains on the label, wherever the better rival lies."""
    other = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(5))

    class Three(nn.Module):
        def forward(self, image):
            return torch.stack([((image - 0.5) * way).sum(dim=(1, 2, 3)) for way in (direction, -direction, other)], 1)

    model = cohen(Three(), sigma=0.3).eval()
    settings = AttackSettings(steps=10, draws=32, restarts=1)
    aimed = Attacker(model, "l2", settings)("gradient", images, LABELS, torch.full((5,), 0.1), torch.full((5,), 2))
    gain = ((aimed - images) * (other - direction)).sum(dim=(1, 2, 3))
    assert (gain >= 0.9 * 0.1 * (other - direction).norm()).all()


def test_an_attack_repeats_from_its_seed(direction, images):
    model = cohen(Linear(direction), sigma=0.3).eval()
    one, two = (Attacker(model, "linf", QUICK)("gradient", images, LABELS, RADII) for _ in range(2))
    assert torch.equal(one, two)


def test_what_cannot_be_attacked_is_refused(direction, images):
    training = cohen(Linear(direction), sigma=0.3).train()
    with pytest.raises(ValueError, match="eval"):
        Attacker(training, "linf", QUICK)
    rounded = SmoothedClassifier(compose(Gaussian(0.3, exact=True)), last, Linear(direction)).eval()
    with pytest.raises(ValueError, match="exact"):
        Attacker(rounded, "linf", QUICK)
    with pytest.raises(ValueError, match="kind"):
        Attacker(cohen(Linear(direction), sigma=0.3).eval(), "linf", QUICK)("guess", images, LABELS, RADII)
    with pytest.raises(ValueError, match="draws"):
        AttackSettings(draws=0)
