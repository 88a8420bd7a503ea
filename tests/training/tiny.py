"""A problem that a small network learns in a second: on which side of a noisy 16x16 image is the bright bar?"""

import dataclasses

import torch
from torch import nn

from ars.methods.adaptive import adaptive
from ars.methods.cohen import cohen
from ars.methods.static_mask import static_mask
from ars.methods.sukenik import sukenik
from ars.methods.unicr import unicr
from ars.models import StaticMask, UNet
from ars.smoothing.mechanism import Tape
from ars.training.loss import Objective, smoothed_loss
from ars.training.optimizers import make_optimizers
from ars.training.settings import Optimizer, TrainSettings
from ars.training.step import Stepper

METHODS = ("adaptive", "cohen", "static_mask", "unicr", "sukenik")
PLAIN = TrainSettings(batch_size=32, classifier=Optimizer(lr=0.01), mask=Optimizer(lr=0.01))


def batch(seed, count=32):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    images = 0.5 * torch.rand(count, 3, 16, 16, generator=generator)
    for image, label in zip(images, labels, strict=True):
        image[:, 4:12, 2 + 8 * int(label) : 6 + 8 * int(label)] += 0.3
    return images, labels


def make_model(method, *, share=0.5, sigma=0.5):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 2)]
    classifier = nn.Sequential(*layers)
    if method == "adaptive":
        return adaptive(classifier, UNet(2), sigma=sigma, share=share)
    if method == "static_mask":
        return static_mask(classifier, StaticMask(16, 16), sigma=sigma)
    if method == "unicr":
        return unicr(classifier, sigma=sigma, beta=1.5)
    if method == "sukenik":
        return sukenik(classifier, batch(99)[0], sigma=sigma)
    return cohen(classifier, sigma=sigma)


def settings(**changes):
    return dataclasses.replace(PLAIN, **changes)


def train(model, settings, *, steps, norm="linf"):
    """Train on a new batch each step; the weights are a function of the arguments."""
    optimizers = make_optimizers(model, settings)
    stepper = Stepper(Objective(model, "float32", settings, norm=norm), optimizers, accumulate=settings.accumulate)
    rates = {"classifier": settings.classifier.lr, "mask": settings.mask.lr}
    torch.manual_seed(1)
    model.train()
    for step in range(steps):
        loss, accuracy = stepper(*batch(step), torch.Generator().manual_seed(step), rates)
        assert loss.isfinite()
        assert 0 <= accuracy <= 1
    return model


def state(module):
    """A copy of all tensors."""
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def attacked_loss(model, images, labels, attack, **how):
    """The smoothed loss before and after an attack, per image, on the same four draws."""
    model.eval()
    tape = Tape(torch.Generator().manual_seed(7))

    def loss(x):
        logits = model(torch.cat([x] * 4), tape.rewound())
        return smoothed_loss(logits.unflatten(0, (4, -1)), labels)

    moved = attack(loss, images, **how)
    with torch.no_grad():
        return float(loss(images)) / len(images), float(loss(moved)) / len(images), moved
