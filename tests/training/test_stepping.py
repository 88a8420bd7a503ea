import pytest
import torch
from torch import nn

from ars.methods import cohen
from ars.training.objective import Objective
from ars.training.stepping import Stepper

from .tiny import batch


def gradients(accumulate):
    """Of one step on a network without BatchNorm; chunks draw the whole batch's noise, 768 numbers an image."""
    torch.manual_seed(0)
    model = cohen(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 2)), sigma=0.5)
    optimizers = {"classifier": torch.optim.SGD(model.parameters(), lr=1e-30)}
    stepper = Stepper(Objective(model, "float32"), optimizers, accumulate=accumulate)
    loss, accuracy = stepper(*batch(0), torch.Generator().manual_seed(3), {"classifier": 1e-30})
    return [parameter.grad for parameter in model.parameters()], float(loss), float(accuracy)


@pytest.mark.parametrize("accumulate", [2, 8, 32])
def test_parts_add_up_to_the_gradient_of_the_whole(accumulate):
    whole, loss, accuracy = gradients(1)
    parts, loss_of_parts, accuracy_of_parts = gradients(accumulate)
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)
        assert one.abs().max() > 1e-3
    assert loss_of_parts == pytest.approx(loss, rel=1e-5)
    assert accuracy_of_parts == pytest.approx(accuracy)


def test_the_parts_of_a_batch_see_different_noise():
    torch.manual_seed(0)
    model = cohen(nn.Sequential(nn.Flatten(), nn.Linear(768, 2)), sigma=0.5)
    seen = []
    model.classifier.register_forward_pre_hook(lambda it, inputs: seen.append(inputs[0].detach()))
    optimizers = {"classifier": torch.optim.SGD(model.parameters(), lr=1e-30)}
    stepper = Stepper(Objective(model, "float32"), optimizers, accumulate=2)
    image, label = (part[:1].expand(4, *part.shape[1:]) for part in batch(0))
    stepper(image, label, torch.Generator().manual_seed(3), {"classifier": 1e-30})
    assert [len(part) for part in seen] == [2, 2]
    assert not torch.equal(seen[0], seen[1])
