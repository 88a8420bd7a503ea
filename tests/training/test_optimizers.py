import pytest
import torch

from ars.training.optimizers import make_optimizers
from ars.training.settings import Optimizer

from .tiny import make_model, settings


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_weight_decay_pulls_on_the_mask_and_not_on_the_split(name):
    model = make_model("adaptive", share="learned")
    chosen = settings(mask=Optimizer(name=name, lr=0.1, weight_decay=0.5))
    optimizer = make_optimizers(model, chosen)["mask"]
    logit, convolution = model.mechanism.steps[0].split.logit, model.mechanism.steps[1].mask.to_mask.weight
    with torch.no_grad():
        logit.fill_(2.0)
    before = convolution.detach().clone()
    for parameter in model.mechanism.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert float(logit.detach()) == 2.0
    assert torch.allclose(convolution, 0.95 * before)


def test_every_parameter_has_one_optimiser():
    model = make_model("adaptive", share="learned")
    groups = [group for it in make_optimizers(model, settings()).values() for group in it.param_groups]
    found = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(found) == sorted(id(parameter) for parameter in model.parameters())


def test_each_part_has_its_own_momentum():
    sgd = {part: Optimizer(name="sgd", momentum=momentum) for part, momentum in (("classifier", 0.5), ("mask", 0.0))}
    optimizers = make_optimizers(make_model("adaptive"), settings(**sgd))
    assert {part: it.param_groups[0]["momentum"] for part, it in optimizers.items()} == {"classifier": 0.5, "mask": 0.0}
