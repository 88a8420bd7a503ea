import hashlib

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from ars.data.benchmark import PARTS
from ars.data.pasted import Material, PastedImages, border_slots, paste

SIDE, CANVAS, COUNT = 4, 12, 20
SLOTS = [tuple(slot) for slot in border_slots(CANVAS - SIDE).tolist()]
GOLDEN = {
    ("test", 0): "cd442dc5279721d4f43a6df52acb4156272a376d50b749d04d6639dc9b759f74",
    ("test", 1): "c2f3c805dfd759eb2b5909cbeef94ca8ba6e14721d53bd5f163a55ba7ad6e024",
    ("validation", 0): "d31a97174a539984345ad5c05efbf3558da3518dc6e01f011c82faee484c883f",
}


def pattern(count, side, start):
    """Bytes that no version of any generator changes."""
    number = torch.arange(count * 3 * side * side, dtype=torch.int64) + start
    return ((number * 2_654_435_761 % 2**32) >> 24).to(torch.uint8).view(count, 3, side, side)


@pytest.fixture
def patterned():
    material = {
        part: Material(pattern(COUNT, SIDE, 0), torch.arange(COUNT), pattern(7, CANVAS, 1000)) for part in PARTS
    }
    return lambda seed=0: PastedImages(material, title="patterns", class_names=list(map(str, range(COUNT))), seed=seed)


@pytest.fixture
def white_on_black():
    """The place of an image is all that can be seen of it."""
    white = torch.full((4 * COUNT, 3, SIDE, SIDE), 255, dtype=torch.uint8)
    black = torch.zeros(1, 3, CANVAS, CANVAS, dtype=torch.uint8)
    material = {part: Material(white, torch.zeros(4 * COUNT, dtype=torch.int64), black) for part in PARTS}
    return PastedImages(material, title="white on black", class_names=["white"])


def places(images):
    return [tuple(image[0].nonzero()[0].tolist()) for image in images]


@pytest.mark.parametrize(("split", "seed"), GOLDEN)
def test_the_fixed_input_of_an_index_never_changes(patterned, split, seed):
    """Committed records name their inputs by index alone. Parts hold the same bytes here: draws tell them apart."""
    images, labels = patterned(seed).examples(split, range(10))
    pixels = (images * 255).round().to(torch.uint8)
    assert hashlib.sha256(pixels.numpy().tobytes()).hexdigest() == GOLDEN[split, seed]
    assert labels.tolist() == list(range(10))


def test_every_batch_of_an_epoch_draws_places_of_its_own(white_on_black):
    first, second = (places(images) for images, _ in white_on_black.train_bytes(0, seed=0, batch_size=2 * COUNT))
    assert {*first, *second} <= set(SLOTS)
    assert first != second
    other, _ = (places(images) for images, _ in white_on_black.train_bytes(1, seed=0, batch_size=2 * COUNT))
    assert other != first


def test_every_epoch_has_an_order_of_its_own(patterned):
    [(_, first)], [(_, second)] = (patterned().train_bytes(epoch, seed=0, batch_size=COUNT) for epoch in (0, 1))
    assert first.tolist() != second.tolist()
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(COUNT))


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
