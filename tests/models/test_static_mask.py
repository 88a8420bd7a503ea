import pytest
import torch

from ars.models import StaticMask


def test_starts_at_one_and_broadcasts():
    mask = StaticMask(5, 7)(torch.rand(3, 2, 5, 7))
    assert mask.shape == (3, 1, 5, 7)
    assert (mask == 1).all()


def test_sees_only_the_shape():
    mask = StaticMask(4, 4)
    torch.nn.init.uniform_(mask.weight)
    noisy = torch.full((2, 3, 4, 4), torch.nan)
    assert torch.equal(mask(noisy), mask(torch.zeros(2, 3, 4, 4)))


def test_stays_in_01_exactly():
    mask = StaticMask(50, 50)
    torch.nn.init.normal_(mask.weight, std=3)
    low, high = torch.aminmax(mask(torch.empty(1, 3, 50, 50)))
    assert (low, high) == (0, 1)


def test_has_the_gradient_of_a_clamp_inside_and_at_the_ends():
    mask = StaticMask(1, 4)
    mask.weight.data = torch.tensor([[0.0, 0.3, 0.7, 1.0]])
    slope = torch.tensor([[1.0, -2.0, 3.0, -4.0]])
    (mask(torch.empty(2, 3, 1, 4)) * slope).sum().backward()
    assert torch.equal(mask.weight.grad, 2 * slope)  # two images share the weights


def test_outside_only_the_gradients_that_lead_back_pass():
    mask = StaticMask(1, 4)
    mask.weight.data = torch.tensor([[1.5, 1.5, -0.5, -0.5]])
    slope = torch.tensor([[1.0, -1.0, 1.0, -1.0]])
    (mask(torch.empty(1, 3, 1, 4)) * slope).sum().backward()
    assert mask.weight.grad.tolist() == [[1.0, 0.0, 0.0, -1.0]]


@pytest.mark.parametrize("start", [-0.4, 1.4])
def test_a_weight_that_drifted_out_still_learns(start):
    mask = StaticMask(2, 2)
    torch.nn.init.constant_(mask.weight, start)
    optimiser = torch.optim.SGD(mask.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        (mask(torch.empty(1, 3, 2, 2)) - 0.5).square().sum().backward()
        optimiser.step()
    assert mask.weight.flatten().tolist() == pytest.approx([0.5] * 4, abs=1e-3)


def test_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match="6x4"):
        StaticMask(4, 6)(torch.rand(1, 3, 6, 4))
    with pytest.raises(ValueError, match="0x3"):
        StaticMask(0, 3)
