import hashlib

import pytest
import torch

from ars.data.digits import DIGIT, DIGITS, SIDE, STRIPS, DigitsOnPhotographs, border_slots


@pytest.fixture(scope="module")
def data():
    return DigitsOnPhotographs(passes=1)


# The digests of the numbers that choose photograph, row, column and slot of the first 50 inputs, seed 0.
GOLDEN = {
    "validation": "d9b1f2f35724540b9f482688386ea1461ea732c8cd809f6a2a2b0c55adb73488",
    "test": "f341f175db90adfc6acf8e912c82072947065a0fae59c475b77719b2f19061cf",
}


@pytest.mark.parametrize("split", GOLDEN)
def test_the_place_of_an_input_never_changes(data, split):
    """Committed records name their inputs by index alone."""
    places = data._places(split, range(50))
    assert hashlib.sha256(places.numpy().tobytes()).hexdigest() == GOLDEN[split]
    assert not torch.equal(DigitsOnPhotographs(seed=1)._places(split, range(50)), places)


def test_the_three_parts_share_neither_digits_nor_pixels_of_photographs():
    digits = [set(range(*DIGITS[part])) for part in DIGITS]
    columns = [set(range(*STRIPS[part])) for part in STRIPS]
    for parts in (digits, columns):
        assert not parts[0] & parts[1]
        assert not parts[0] & parts[2]
        assert not parts[1] & parts[2]


@pytest.mark.parametrize("part", DIGITS)
def test_the_crops_of_a_part_come_from_its_strips_of_both_photographs(part):
    """Photographs whose channels tell where a pixel comes from: its column over 4, its row over 4, which of the two."""
    data = DigitsOnPhotographs(passes=1)
    column, row, which = torch.arange(640)[None, None], torch.arange(427)[None, :, None], torch.arange(2)[:, None, None]
    where = [part.expand(2, 427, 640) for part in (column // 4, row // 4, which)]
    data._photographs = torch.stack(where, dim=1).to(torch.uint8)
    images = data.references() if part == "train" else data.examples(part, range(200))[0]
    columns, rows, photographs = (255 * images[:, :, 12, 12]).round().int().unbind(1)  # the middle holds no digit
    left, right = STRIPS[part]
    assert columns.min() * 4 < left + 24
    assert columns.min() * 4 >= left
    assert right - 24 < columns.max() * 4 + 4 <= right
    assert rows.min() < 10
    assert rows.max() > 95
    assert photographs.unique().tolist() == [0, 1]


def test_each_input_shows_its_digit_once_along_the_border(data):
    images, labels = data.examples("test", range(100))
    first = DIGITS["test"][0]
    slots = {tuple(slot) for slot in border_slots(SIDE - DIGIT).tolist()}
    boxes = data.boxes("test", range(100)).tolist()
    for index in range(100):
        digit = data._digits[first + index]
        assert data._labels[first + index] == labels[index]
        windows = images[index].unfold(1, DIGIT, 1).unfold(2, DIGIT, 1)  # [3, 17, 17, 8, 8]
        [found] = (windows == digit).flatten(3).all(3).all(0).nonzero().tolist()
        assert tuple(found) in slots
        assert boxes[index] == [*found, DIGIT, DIGIT]


def test_every_border_slot_is_reached_and_no_other():
    slots = {tuple(slot) for slot in border_slots(16).tolist()}
    expected = {(r, c) for r in range(17) for c in range(17) if r in (0, 16) or c in (0, 16)}
    assert slots == expected
    assert border_slots(0).tolist() == [[0, 0]]
