"""Which runs answered for the same test images."""

import pytest

from ars.report.inputs import Inputs
from ars.report.results import load_runs

SEEN = (300, 0.5, 0.25)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Inputs({"kind": "digits", "seed": 0}), Inputs({"kind": "digits", "seed": 0}), True),
        (Inputs({"kind": "digits", "seed": 0}), Inputs({"kind": "digits", "seed": 1}), False),
        (Inputs({"kind": "digits"}), Inputs({"kind": "digits", "seed": 1}), False),  # 0 where none is given
        (Inputs({"seed": 0}, SEEN), Inputs({"seed": 1}, SEEN), False),
        (Inputs({"attribute": "Smiling"}), Inputs({"attribute": "Young"}), False),
        (Inputs({"passes": 8, "padding": 4, "workers": 2}), Inputs({"passes": 1, "padding": 0, "workers": 9}), True),
        (Inputs({"size": 64}), Inputs({"size": 64, "later": 1}), True),
        (Inputs({"root": "a"}), Inputs({"root": "b"}), False),
        (Inputs({"root": "a"}, SEEN), Inputs({"root": "b"}), False),
        (Inputs({"root": "a"}, SEEN), Inputs({"root": "b"}, SEEN), True),  # the same images in another place
        (Inputs({}, SEEN), Inputs({}, (300, 0.5, 0.252)), True),  # another decoder
        (Inputs({}, SEEN), Inputs({}, (300, 0.5, 0.26)), False),
        (Inputs({}, SEEN), Inputs({}, (301, 0.5, 0.25)), False),
        (Inputs({}, SEEN), Inputs({}), True),  # of an earlier version nothing is known
        (Inputs({}, SEEN, "classes in turn"), Inputs({}, SEEN, "classes in turn"), True),
        (Inputs({}, SEEN, "classes in turn"), Inputs({}, SEEN), False),  # by name
    ],
)
def test_inputs_are_the_same_where_nothing_tells_them_apart(one, other, same):
    assert one.same(other) == other.same(one) == same


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"data": {"seed": 1}}, False),
        ({"seen": (300, 0.1)}, False),
        ({"truth": 2}, False),
        ({"subset": "test[::2]"}, False),
    ],
)
def test_images_are_the_same_by_class_subset_and_inputs(make_run, make_record, other, same):
    records = [make_record(0, other.pop("truth", 0), 0, 0.1, subset=other.pop("subset", "test"))]
    paths = [make_run("a", shards=[[make_record(0, 0, 0, 0.1)]], seen=(300, 0.5))]
    one, two = load_runs([*paths, make_run("b", shards=[records], **{"seen": (300, 0.5), **other})])
    assert one.same_images(two) == same
