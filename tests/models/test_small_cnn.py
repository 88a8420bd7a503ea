import pytest
import torch

from ars.models import small_cnn


@pytest.mark.parametrize("size", [8, 24, 31])
def test_takes_any_size(size):
    assert small_cnn(10, width=4)(torch.rand(2, 3, size, size)).shape == (2, 10)


def test_parameter_count():
    c = 32
    convolutions = 9 * (3 * c + c * c + 2 * c * c + 4 * c * c + 8 * c * c + 16 * c * c)
    assert sum(p.numel() for p in small_cnn(10).parameters()) == convolutions + 2 * 14 * c + 4 * c * 10 + 10


def test_learns_a_small_object_anywhere():
    """Two 4x4 patterns at random places under noise; chance is one half."""
    torch.manual_seed(0)
    patterns = torch.stack([torch.eye(4), torch.eye(4).flip(0)])

    def batch(n):
        labels, places = torch.randint(2, (n,)), torch.randint(13, (n, 2)).tolist()
        images = 0.25 * torch.randn(n, 3, 16, 16)
        for image, label, (row, column) in zip(images, labels, places, strict=True):
            image[:, row : row + 4, column : column + 4] += patterns[label]
        return images, labels

    network = small_cnn(2, width=8)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for _ in range(60):
        images, labels = batch(64)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimiser.step()
    images, labels = batch(400)
    with torch.no_grad():
        assert (network.eval()(images).argmax(1) == labels).float().mean() > 0.95


def test_refuses_meaningless_settings():
    with pytest.raises(ValueError, match="classes=1"):
        small_cnn(1)
    with pytest.raises(ValueError, match="width=0"):
        small_cnn(10, width=0)
