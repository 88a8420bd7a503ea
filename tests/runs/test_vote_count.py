import json

import pytest

from ars.runs.vote_count import Tally, read_tally

TALLY = Tally(300, 100, 200, 0, 12.5, "float32", "model")
CONTENT = json.loads(TALLY.to_json())


def test_a_vote_comes_back_as_it_was(tmp_path):
    (tmp_path / "vote.json").write_text(TALLY.to_json())
    assert read_tally(tmp_path) == TALLY


@pytest.mark.parametrize(
    "changes",
    [
        {"correct": 301}, {"correct": -1}, {"images": float("inf")}, {"images": True}, {"draws": 0}, {"draws": "100"},
        {"seconds": "x"}, {"looks": 3}, {"looks": ["a"]}, {"looks": [float("inf")]},
    ],
    ids=str,
)  # fmt: skip
def test_a_vote_with_impossible_numbers_is_none(tmp_path, changes):
    """More correct images than images would have a standard error that no square root gives."""
    (tmp_path / "vote.json").write_text(json.dumps(CONTENT | changes))
    assert read_tally(tmp_path) is None
    with pytest.raises((ValueError, TypeError)):
        Tally.of(CONTENT | changes)
