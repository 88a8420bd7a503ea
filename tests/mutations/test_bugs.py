"""The planted bugs fit the source as it is; plant.py runs them."""

import pytest

from .plant import ROOT, read_bugs

BUGS = read_bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_bug_changes_one_place_of_valid_code(bug):
    text = (ROOT / bug.file).read_text(encoding="utf-8")
    assert text.count(bug.find) == 1
    planted = text.replace(bug.find, bug.replace)
    assert planted != text
    compile(planted, bug.file, "exec")


def test_half_of_at_least_forty_bugs_were_written_without_the_tests():
    assert len({bug.id for bug in BUGS}) == len(BUGS) >= 40
    assert sum(bug.blind for bug in BUGS) >= len(BUGS) / 2
