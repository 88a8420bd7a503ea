"""An audit is read back as it was written, and its verdict follows from what it found."""

import dataclasses

import pytest

from ars.runs.audits import Audit, Control, Finding, read_audit
from ars.runs.records import ReportError

GOOD = Finding("noise", "Is it noise?", True, "it is", 0.5, 1e-5, {"edges": [0.0], "counts": [[1, 2]]})
OTHER = Finding("masks", "Do they peek?", None, "there is none")
AUDIT = Audit("runs/a", "abc", {"draws": 100}, (GOOD, OTHER), (Control("no noise", "noise", True, "none"),), 1.5)


def test_an_audit_is_read_as_it_was_written(tmp_path):
    (tmp_path / "audit.json").write_text(AUDIT.to_json())
    assert read_audit(tmp_path / "audit.json") == AUDIT


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"model": 1, "findings": [{}]}'])
def test_a_file_that_is_no_audit_is_refused(tmp_path, text):
    (tmp_path / "audit.json").write_text(text)
    with pytest.raises(ReportError, match="audit the model again"):
        read_audit(tmp_path / "audit.json")


def test_the_verdict_names_what_was_found():
    assert AUDIT.sound
    bad = dataclasses.replace(GOOD, passed=False)
    one = dataclasses.replace(AUDIT, findings=(bad, OTHER))
    assert (one.sound, one.verdict) == (False, "1 defect found: noise")
    missed = dataclasses.replace(AUDIT, controls=(Control("no noise", "noise", False, "fine"),))
    assert not missed.sound
    assert "broken" in missed.verdict
    assert "no noise" in missed.verdict
