import hashlib
import subprocess
import sys

import pytest
import torch

from ars.data.digits import DIGIT, DIGITS, SIDE, STRIPS, DigitsOnPhotographs, border_slots


@pytest.fixture(scope="module")
def data():
    return DigitsOnPhotographs(passes=1)


def test_a_test_input_is_the_same_in_another_process_and_another_with_another_seed(data):
    code = (
        "import hashlib; from ars.data.digits import DigitsOnPhotographs as B;"
        "print(hashlib.sha256(B().examples('test', range(50))[0].numpy().tobytes()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    images, _ = data.examples("test", range(50))
    assert other == hashlib.sha256(images.numpy().tobytes()).hexdigest()
    assert not torch.equal(DigitsOnPhotographs(seed=1).examples("test", range(50))[0], images)


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
    for index in range(100):
        digit = data._digits[first + index]
        assert data._labels[first + index] == labels[index]
        windows = images[index].unfold(1, DIGIT, 1).unfold(2, DIGIT, 1)  # [3, 17, 17, 8, 8]
        found = (windows == digit).flatten(3).all(3).all(0).nonzero().tolist()
        assert len(found) == 1
        assert tuple(found[0]) in slots


def test_every_border_slot_is_reached_and_no_other():
    slots = {tuple(slot) for slot in border_slots(16).tolist()}
    expected = {(r, c) for r in range(17) for c in range(17) if r in (0, 16) or c in (0, 16)}
    assert slots == expected
    assert border_slots(0).tolist() == [[0, 0]]


def test_boxes_are_where_the_digits_are(data):
    indices = [0, 7, 123, 299]
    images, _ = data.examples("test", indices)
    for image, (top, left, height, width) in zip(images, data.boxes("test", indices).tolist(), strict=True):
        inside = image[:, top : top + height, left : left + width]
        assert (height, width) == (8, 8)
        assert (inside[0] == inside[1]).all()  # a digit is grey
        assert (inside * 16 == (inside * 16).round()).all()  # in 17 levels
        assert {0, 16} & {top, left}
