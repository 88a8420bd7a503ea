import pytest
import torch

from ars.training.ema import MovingAverage

from .tiny import make_model


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
    other.load({name: tensor.clone() for name, tensor in one.tensors().items()})
    with torch.no_grad():
        model.classifier[0].weight.fill_(-3.0)
    one.update()
    other.update()
    assert torch.equal(one.model.classifier[0].weight, other.model.classifier[0].weight)


def test_reference_images_are_not_copied():
    average = MovingAverage(make_model("sukenik"), 0.5)
    assert not any(len(tensor) == 32 for tensor in average.average.buffers() if tensor.ndim == 4)
