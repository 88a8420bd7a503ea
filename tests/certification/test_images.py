"""Arrays as images: layouts, bytes, and what is not clear."""

import numpy as np
import pytest
import torch

from ars.certification.images import as_batch

BYTES = np.random.default_rng(0).integers(0, 256, (2, 5, 7, 3), dtype=np.uint8)
FIRST = torch.from_numpy(BYTES).permute(0, 3, 1, 2).float() * (1 / 255)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (BYTES, FIRST),
        (BYTES[0], FIRST[:1]),
        (np.moveaxis(BYTES, -1, 1), FIRST),
        (FIRST.numpy(), FIRST),
        (FIRST[0].numpy().astype(np.float64), FIRST[:1]),
        (BYTES[0, :, :, 0], FIRST[:1, :1]),
        (BYTES[..., :1], FIRST[:, :1]),
        (BYTES[:, ::-1], FIRST.flip(2)),
    ],
)
def test_an_array_is_the_tensor_with_its_channels_first(array, expected):
    assert torch.equal(as_batch(array), expected)


@pytest.mark.parametrize("shape", [(3, 5, 3), (1, 4, 3), (4, 5, 7), (2, 4, 5, 7), (2, 3, 5, 1)])
def test_an_unclear_layout_is_refused(shape):
    with pytest.raises(ValueError, match="not clear; give a tensor"):
        as_batch(np.zeros(shape, dtype=np.float32))


@pytest.mark.parametrize("array", [np.zeros((3, 4, 4), dtype=np.int64), np.full((3, 4, 4), 255.0)])
def test_an_array_of_other_numbers_is_refused(array):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        as_batch(array)
