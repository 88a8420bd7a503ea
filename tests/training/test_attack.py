import pytest
import torch

from ars.training.attack import attack
from ars.training.settings import SmoothAdv

from .tiny import attacked_loss, batch, make_model, settings, train

EPSILONS = {"linf": 0.1, "l2": 1.0}
DIRECTION = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=["linf", "l2"])
def norm(request):
    return request.param


def length(images, norm):
    return images.flatten(1).norm(p=float("inf") if norm == "linf" else 2, dim=1)


@pytest.fixture(scope="module")
def plain():
    return train(make_model("cohen"), settings(draws=2), steps=60)


def test_the_attack_raises_the_loss_within_its_ball_and_the_pixels(plain, norm):
    images, labels = batch(1000)
    images[:, :, :4] = torch.tensor([0.0, 0.02, 0.99, 1.0]).view(4, 1)  # near both ends of [0, 1]
    epsilon = EPSILONS[norm]
    how = {"epsilon": torch.tensor(epsilon), "steps": 5, "norm": norm}
    before, after, moved = attacked_loss(plain, images, labels, attack, **how)
    assert after > before + 0.1
    distance = length(moved - images, norm)
    assert distance.max() <= epsilon * (1 + 1e-5)
    assert distance.max() > 0.5 * epsilon
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert not moved.requires_grad


def test_on_a_linear_loss_half_of_the_steps_reach_the_worst_point(norm):
    """A step is twice its share of epsilon."""
    images, seen = torch.full((2, 3, 4, 4), 0.5), []

    def loss(x):
        seen.append(length(x.detach() - images, norm))
        return (x * DIRECTION).sum()

    moved = attack(loss, images, epsilon=torch.tensor(0.1), steps=4, norm=norm)
    for distance, expected in zip(seen, [0.0, 0.05, 0.1, 0.1], strict=True):
        assert distance.tolist() == pytest.approx([expected] * 2, abs=1e-6)
    gained = ((moved - images) * DIRECTION).flatten(1).sum(dim=1)
    best = DIRECTION.flatten(1).norm(p=1 if norm == "linf" else 2, dim=1)
    assert torch.allclose(gained, 0.1 * best, rtol=1e-4)


def test_no_step_on_the_way_leaves_the_pixels(norm):
    def loss(x):
        assert x.min() >= -1e-6
        assert x.max() <= 1 + 1e-6
        return (x * DIRECTION).sum()

    attack(loss, torch.rand(2, 3, 4, 4).round(), epsilon=torch.tensor(0.5), steps=4, norm=norm)


def test_a_gradient_of_zeros_or_an_epsilon_of_zero_moves_nothing(norm):
    images = torch.rand(2, 3, 4, 4)
    for gain, epsilon in ((0, 0.1), (1, 0.0)):
        moved = attack(lambda x, gain=gain: (gain * x).sum(), images, epsilon=torch.tensor(epsilon), steps=2, norm=norm)
        assert torch.equal(moved, images)


def test_smoothadv_lowers_the_loss_at_adversarial_images(plain, norm):
    smoothadv = SmoothAdv(epsilon=EPSILONS[norm], steps=2)
    robust = train(make_model("cohen"), settings(draws=2, smoothadv=smoothadv), steps=60, norm=norm)
    images, labels = batch(1000, count=128)
    how = {"epsilon": torch.tensor(EPSILONS[norm]), "steps": 5, "norm": norm}
    losses = [attacked_loss(model, images, labels, attack, **how)[1] for model in (robust, plain)]
    assert losses[0] < 0.9 * losses[1]
