import pytest
import torch
from torch import nn

from ars.tensors import load_tensors, save_tensors
from ars.training.optimizers import MovingAverage, load_optimizers, make_optimizers, optimizer_tensors
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


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("fused", [False, True])
def test_an_optimiser_goes_on_as_if_never_saved(tmp_path, kind, layout, fused):
    images = torch.rand(2, 4, 8, 8)
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}

    def make():
        torch.manual_seed(0)
        network = nn.Conv2d(4, 5, 3).to(memory_format=layout)
        return network, kind(network.parameters(), lr=0.1, fused=fused, **options)

    def step(network, optimizer):
        optimizer.zero_grad()
        network(images).square().mean().backward()
        optimizer.step()

    network, optimizer = make()
    for _ in range(2):
        step(network, optimizer)
    save_tensors(tmp_path / "state.safetensors", optimizer_tensors({"it": optimizer}), {})
    again, other = make()
    again.load_state_dict(network.state_dict())
    load_optimizers({"it": other}, load_tensors(tmp_path / "state.safetensors")[0])
    for parameter, state in other.state.items():
        assert all(value.stride() == parameter.stride() for key, value in state.items() if key != "step")
    step(network, optimizer)
    step(again, other)
    assert torch.equal(network.weight, again.weight)
    assert torch.equal(network.bias, again.bias)


def test_the_average_is_the_recursion_and_is_handed_over():
    model = make_model("adaptive", share="learned")
    average = MovingAverage(model, 0.9)
    logit, norm = model.mechanism.steps[0].split.logit, model.classifier[1]
    expected = None
    for value in (1.0, 2.0, 4.0):
        with torch.no_grad():
            logit.fill_(value)
            norm.running_mean.fill_(value)
        average.update()
        expected = value if expected is None else 0.9 * expected + 0.1 * value
    averaged = average.model
    assert float(averaged.mechanism.steps[0].split.logit.detach()) == pytest.approx(expected)
    assert averaged.mechanism.sigmas != model.mechanism.sigmas  # both of its steps follow the averaged split
    assert averaged.classifier[1].running_mean.tolist() == pytest.approx([expected] * 8)
    average.hand_over()
    assert float(logit.detach()) == pytest.approx(expected)
    assert model.mechanism.sigmas == averaged.mechanism.sigmas
    assert norm.running_mean.tolist() == pytest.approx([expected] * 8)


def test_its_state_comes_back():
    model = make_model("cohen")
    one, other = MovingAverage(model, 0.5), MovingAverage(model, 0.5)
    for value in (0.1, 0.7):
        with torch.no_grad():
            model.classifier[0].weight.fill_(value)
        one.update()
    other.averaged.load_state_dict({name: tensor.clone() for name, tensor in one.averaged.state_dict().items()})
    with torch.no_grad():
        model.classifier[0].weight.fill_(-3.0)
    one.update()
    other.update()
    assert torch.equal(one.model.classifier[0].weight, other.model.classifier[0].weight)


def test_reference_images_are_not_copied():
    average = MovingAverage(make_model("sukenik"), 0.5)
    assert not any(len(tensor) == 32 for tensor in average.averaged.buffers() if tensor.ndim == 4)
