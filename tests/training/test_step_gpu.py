"""A step as a CUDA graph against the same step as it stands."""

import dataclasses

import pytest
import torch

from ars.recipes.build import build_model
from ars.training.loss import Objective
from ars.training.optimizers import make_optimizers
from ars.training.settings import Consistency, Optimizer, SmoothAdv
from ars.training.step import WARM_UP, GraphedStepper, Stepper

from .conftest import RECIPE
from .tiny import METHODS, batch, make_model
from .tiny import settings as tiny_settings

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
STEPS = WARM_UP + 5


def train(digits, kind, name="adamw", rates=(1e-3,) * STEPS):
    settings = dataclasses.replace(RECIPE.train, classifier=Optimizer(name), mask=Optimizer(name))
    device = torch.device("cuda")
    model = build_model(RECIPE, digits, device).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout2d):
            module.p = 0.0
    optimizers = make_optimizers(model, settings)
    stepper = kind(Objective(model, "float32"), optimizers)
    losses = []
    batches = digits.train_batches(0, seed=0, batch_size=64)
    for step, (rate, (images, labels)) in enumerate(zip(rates, batches, strict=False)):
        generator = torch.Generator(device).manual_seed(step)
        loss, _ = stepper(images.to(device), labels.to(device), generator, dict.fromkeys(optimizers, rate))
        losses.append(float(loss))
    return losses, torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_a_graph_ends_in_the_same_weights(digits, name):
    losses, weights = train(digits, Stepper, name)
    graphed, others = train(digits, GraphedStepper, name)
    assert graphed == pytest.approx(losses, rel=1e-3)
    assert (weights - others).norm() < 0.01 * weights.norm()  # Adam's first steps follow the sign of noise
    assert len(set(graphed)) == STEPS  # every replay has a batch and noise of its own


def test_a_graph_heeds_the_learning_rate(digits):
    half = (1e-3,) * (WARM_UP + 1)
    _, stopped = train(digits, GraphedStepper, "sgd", half + (0.0,) * 4)
    _, reference = train(digits, GraphedStepper, "sgd", half)
    assert torch.allclose(stopped, reference, atol=1e-5)
    _, moved = train(digits, GraphedStepper, "sgd", half + (1e-3,) * 4)
    assert not torch.allclose(moved, reference, atol=1e-4)


CHANGES = {
    "plain": {},
    "consistency": {"draws": 2, "consistency": Consistency(weight=10.0)},
    "smoothadv": {"draws": 2, "smoothadv": SmoothAdv(epsilon=0.01, steps=2, warmup=2)},
    "accumulate": {"accumulate": 2},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", [*METHODS, "learned"])
def test_whatever_a_recipe_asks_for_can_be_captured(method, change):
    """Every replay gives the loss of the step as it stands: same weights, batch, noise and epsilon."""
    chosen = tiny_settings(**CHANGES[change], classifier=Optimizer("sgd", lr=0.01), mask=Optimizer("sgd", lr=0.01))
    losses = []
    for kind in (Stepper, GraphedStepper):
        kwargs = {"share": "learned"} if method == "learned" else {}
        model = make_model("adaptive" if method == "learned" else method, **kwargs).cuda().train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout2d):
                module.p = 0.0
        optimizers = make_optimizers(model, chosen)
        objective = Objective(model, "float32", chosen)
        stepper = kind(objective, optimizers, accumulate=chosen.accumulate)
        losses.append([])
        for step in range(STEPS):
            objective.warm_up(step)
            images, labels = (part.cuda() for part in batch(step))
            generator = torch.Generator("cuda").manual_seed(step)
            losses[-1].append(float(stepper(images, labels, generator, dict.fromkeys(optimizers, 0.01))[0]))
    assert losses[1] == pytest.approx(losses[0], rel=2e-3)
