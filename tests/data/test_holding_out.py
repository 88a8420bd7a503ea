from ars.data.holding_out import held_out, part_of


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
