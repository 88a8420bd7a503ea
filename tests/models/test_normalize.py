import pytest
import torch

from ars.models import Normalize

MEAN, STD = [0.4, 0.5, 0.6], [0.1, 0.2, 0.3]


def test_normalises_each_channel():
    x = torch.rand(2, 3, 4, 5)
    y = Normalize(MEAN, STD)(x)
    for channel in range(3):
        torch.testing.assert_close(y[:, channel], (x[:, channel] - MEAN[channel]) / STD[channel])


def test_leaves_its_input_alone():
    x = torch.rand(1, 3, 2, 2)
    before = x.clone()
    Normalize(MEAN, STD)(x)
    assert torch.equal(x, before)


def test_travels_with_the_weights():
    other = Normalize([0.0] * 3, [1.0] * 3)
    other.load_state_dict(Normalize(MEAN, STD).state_dict())
    assert other.std.flatten().tolist() == pytest.approx(STD)
    assert list(other.parameters()) == []


@pytest.mark.parametrize("std", [[0.1, 0.0, 0.1], [0.1, -1.0, 0.1], [0.1, float("nan"), 0.1], [0.1, float("inf"), 0.1]])
def test_std_must_be_positive_and_finite(std):
    with pytest.raises(ValueError, match="stds > 0"):
        Normalize(MEAN, std)


def test_lengths_must_agree_with_each_other_and_the_images():
    with pytest.raises(ValueError, match="3 means and 1 stds"):
        Normalize(MEAN, [0.1])
    with pytest.raises(ValueError, match="one mean and one std"):
        Normalize([], [])
    with pytest.raises(ValueError, match=r"expected images \[b, 3, h, w\]"):
        Normalize(MEAN, STD)(torch.rand(1, 1, 4, 4))
