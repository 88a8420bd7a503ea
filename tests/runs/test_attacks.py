import json

import pytest

from ars.runs.attacks import Attacked, Attacks, Attempt, Target, read_attacks, write_attacks
from ars.runs.records import ReportError

IMAGE = Attacked(Target(0, 1, 1, 0.01), (Attempt("gradient", 0.5, 0, (10, 90), 1.0),))
ATTACKS = Attacks({"times": [0.5]}, "model", "records", 1, 2.5, (IMAGE,))


def test_attacks_come_back_as_they_were(tmp_path):
    write_attacks(tmp_path, "test", ATTACKS)
    assert read_attacks(tmp_path, "test") == ATTACKS


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        (("images", 0, "attempts", 0), "counts", [10, "90"]), (("images", 0, "attempts", 0), "counts", [90]),
        (("images", 0, "attempts", 0), "times", 2.0), (("images", 0, "attempts", 0), "p_value", None),
        (("images", 0, "target"), "label", 2), (("images", 0, "target"), "label", -1),
        (("images", 0, "target"), "radius", "x"), (("images", 0), "attempts", []), ((), "total", 1.5),
        ((), "images", 3), ((), "settings", {"times": "x"}), ((), "settings", None),
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_file_of_attacks_is_named(tmp_path, place, key, value):
    content = part = json.loads(ATTACKS.to_json())
    for step in place:
        part = part[step]
    part[key] = value
    (tmp_path / "attack").mkdir()
    (tmp_path / "attack/test.json").write_text(json.dumps(content))
    with pytest.raises(ReportError, match=r"test\.json cannot be read"):
        read_attacks(tmp_path, "test")
