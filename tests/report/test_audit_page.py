"""The page of an audit shows every check, every control and the figures, from the record alone."""

import dataclasses

import pytest

from ars.report.audit_page import FIGURES, WORDS, make_audit_page, write_audit
from ars.runs.audits import Audit, Control, Finding, read_audit

NUMBERS = {
    "likelihood ratio": {"counts": [1, 5, 1], "edges": [-3.0, -1.0, 1.0, 3.0], "draws": 7},
    "operating points": {
        "points": [["there", "signs", 0.1, 0.5], ["nearby", "signs", 0.1, 0.8]], "levels": [0.1, 0.9],
        "curves": {"there": [0.4, 0.01], "nearby": [0.7, 0.05]},
    },
    "votes": {"votes": [0] * 49 + [3, 4, 2] + [0] * 49, "blocks": 9},
    "noise": {"edges": [-2.0, -1.0, 0.0, 1.0, 2.0], "counts": [[2, 10, 30, 30, 10, 0], [1, 10, 30, 30, 10, 1]]},
}  # fmt: skip
SETTINGS = {"images": 2, "draws": 1000, "norm": "linf", "exact": False, "precision": "float32", "seed": 0}


@pytest.fixture
def audit():
    findings = tuple(
        Finding(name, "Is it?", True, f"{name} <b>", 0.3, 1e-5, numbers) for name, numbers in NUMBERS.items()
    )
    more = Finding("masks", "Do they?", False, "a mask peeks"), Finding("low bits", "Do they?", None, "no bits")
    return Audit(
        "runs/a & b", "0123456789abcdef00", SETTINGS, (*findings, *more), (Control("x", "votes", True, "y"),), 2.0
    )


def test_the_page_has_every_check_escaped(audit):
    page = make_audit_page(audit)
    for finding in audit.findings:
        assert f"{finding.name}</th>" in page
    assert page.count("DEFECT") == 1
    assert all(word in page for word in WORDS.values())
    assert "fails as it should" in page
    assert audit.verdict in page
    assert "runs/a &amp; b" in page
    assert "<b>" not in page
    assert page.count("<svg") == len(NUMBERS)
    assert "http" not in page.replace("http://www.w3.org", "")


def test_equal_audits_give_equal_files_and_figures_of_an_earlier_audit_are_removed(audit, tmp_path):
    write_audit(tmp_path, audit)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"audit.json", "index.html", *FIGURES.values()}
    again = read_audit(tmp_path / "audit.json")
    assert again == audit
    (tmp_path / "noise.svg").unlink()
    write_audit(tmp_path, dataclasses.replace(again, findings=again.findings[1:]))
    assert not (tmp_path / "ratio.svg").exists()
    assert (tmp_path / "noise.svg").read_bytes() == before["noise.svg"]
