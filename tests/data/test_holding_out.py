from collections import Counter

import pytest

from ars.data.holding_out import classes_in_turn, held_out, part_of


def test_what_is_held_out_never_changes():
    """A training that goes on, or that begins with weights of another, must leave out the same images."""
    stay, out = held_out(50, 0.1)
    assert out == [1, 5, 21, 26, 48]
    assert sorted([*stay, *out]) == list(range(50))
    parts = [part_of(str(number), validation=0.1, test=0.1) for number in range(30)]
    assert [number for number, part in enumerate(parts) if part == "test"] == [1, 5, 21, 24, 26]
    assert [number for number, part in enumerate(parts) if part == "validation"] == [7]


def test_a_name_may_hold_bytes_that_are_no_text():
    assert part_of("caf\udce9.png", validation=0.1, test=0.1) in ("train", "validation", "test")


CLASSES = 8
NAMES = [f"{label}/{number:02d}.png" for label in range(CLASSES) for number in range(32)]
LABELS = [int(name[0]) for name in NAMES]


def test_the_first_names_are_of_all_classes_and_not_the_first_by_name():
    order = classes_in_turn(NAMES, LABELS)
    assert sorted(order) == list(range(len(NAMES)))
    for rounds in (1, 2, 5, 32):
        assert set(Counter(LABELS[index] for index in order[: CLASSES * rounds]).values()) == {rounds}
    first = [NAMES[index] for index in order if LABELS[index] == 0]
    assert sorted(first[:8]) != sorted(first)[:8]
    shuffled = sorted(range(len(NAMES)), key=lambda index: NAMES[index][::-1])
    again = classes_in_turn([NAMES[index] for index in shuffled], [LABELS[index] for index in shuffled])
    assert [NAMES[shuffled[index]] for index in again] == [NAMES[index] for index in order]


@pytest.mark.parametrize("every", [2, 3, 4, 7, 8, 9, 16])
def test_no_step_meets_the_same_classes_in_every_round(every):
    """With the classes of every round in one order, a step of 8 would meet one of 8 classes, and one of 4 two."""
    met = Counter(LABELS[index] for index in classes_in_turn(NAMES, LABELS)[::every])
    assert len(met) >= 6
    assert max(met.values()) <= 2.5 * met.total() / CLASSES
