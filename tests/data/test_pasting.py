import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given, settings

from ars.data.pasting import border_slots, mirror, paste, to_unit


@settings(deadline=None, max_examples=30)
@given(side=st.integers(1, 6), extra=st.integers(0, 6), batch=st.integers(1, 4), seed=st.integers(0, 100))
def test_pasting_a_batch_is_pasting_one_by_one(side, extra, batch, seed):
    random = np.random.default_rng(seed)
    images = random.integers(256, size=(batch, 3, side, side), dtype=np.uint8)
    onto = random.integers(256, size=(batch, 3, side + extra, side + extra), dtype=np.uint8)
    slots = border_slots(extra)[random.integers(len(border_slots(extra)), size=batch)]
    expected = onto.copy()
    for index, (top, left) in enumerate(slots.tolist()):
        expected[index, :, top : top + side, left : left + side] = images[index]
    before = onto.copy()
    pasted = paste(torch.from_numpy(images), torch.from_numpy(onto), slots)
    assert np.array_equal(pasted.numpy(), expected)
    assert np.array_equal(onto, before)


def test_flips_are_per_image():
    images = torch.arange(2 * 3 * 2 * 4, dtype=torch.uint8).view(2, 3, 2, 4)
    flipped = mirror(images, torch.tensor([False, True]))
    assert torch.equal(flipped[0], images[0])
    assert torch.equal(flipped[1], images[1].flip(2))


def test_every_byte_lands_in_the_unit_interval_next_to_its_share():
    bytes_ = torch.arange(256, dtype=torch.uint8)
    unit = to_unit(bytes_)
    assert unit.dtype == torch.float32
    assert unit[0] == 0
    assert unit[255] == 1
    assert torch.allclose(unit.double(), bytes_.double() / 255, atol=0, rtol=1e-7)
    assert torch.equal((unit * 255).round().to(torch.uint8), bytes_)
