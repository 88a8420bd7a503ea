import pytest
import torch

from ars.models import Normalize

MEAN, STD = [0.4, 0.5, 0.6], [0.1, 0.2, 0.3]


def test_normalises_each_channel_of_a_copy():
    x = torch.rand(2, 3, 4, 5)
    before = x.clone()
    y = Normalize(MEAN, STD)(x)
    for channel in range(3):
        torch.testing.assert_close(y[:, channel], (before[:, channel] - MEAN[channel]) / STD[channel])
    assert torch.equal(x, before)


def test_travels_with_the_weights():
    other = Normalize([0.0] * 3, [1.0] * 3)
    other.load_state_dict(Normalize(MEAN, STD).state_dict())
    assert other.std.flatten().tolist() == pytest.approx(STD)
    assert list(other.parameters()) == []


@pytest.mark.parametrize(
    ("mean", "std"),
    [*((MEAN, [0.1, bad, 0.1]) for bad in (0.0, -1.0, float("nan"), float("inf"))), (MEAN, [0.1]), ([], [])],
)
def test_each_channel_has_a_mean_and_a_positive_finite_std(mean, std):
    with pytest.raises(ValueError, match="std"):
        Normalize(mean, std)


def test_images_with_other_channels_are_refused():
    with pytest.raises(ValueError, match="3, h, w"):
        Normalize(MEAN, STD)(torch.rand(1, 1, 4, 4))
