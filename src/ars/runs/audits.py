"""What an audit of a model found, as in audit/audit.json of a run; loads no torch."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from ars.runs.records import ReportError
from ars.untrusted import parse_json, read_text

FAMILY_LEVEL = 1e-4
"""Probability of at least one false alarm among all checks of a sound model, at most."""


@dataclass(frozen=True)
class Finding:
    """The answer of one check; passed is None if the check does not apply to the model.

    false_alarm bounds the probability that the check refuses a sound model; it is 0 for a check without chance.
    figure holds the numbers of a figure.
    """

    name: str
    question: str
    passed: bool | None
    said: str
    p_value: float | None = None
    false_alarm: float = 0.0
    figure: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Control:
    """A model with a planted defect, and whether the check that it is meant for found it."""

    planted: str
    check: str
    found: bool
    said: str


@dataclass(frozen=True)
class Audit:
    """The findings on one model, and the controls, which were audited in the same session by the same checks."""

    model: str
    digest: str
    settings: Mapping[str, Any]
    findings: tuple[Finding, ...]
    controls: tuple[Control, ...]
    seconds: float

    @property
    def defects(self) -> tuple[Finding, ...]:
        """The checks that the model does not pass."""
        return tuple(finding for finding in self.findings if finding.passed is False)

    @property
    def missed(self) -> tuple[Control, ...]:
        """The planted defects that were not found."""
        return tuple(control for control in self.controls if not control.found)

    @property
    def sound(self) -> bool:
        """Whether no defect was found, by checks that find every planted one."""
        return not self.defects and not self.missed

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.missed:
            names = "; ".join(control.planted for control in self.missed)
            return f"the audit itself is broken: it misses planted defects ({names})"
        if not self.defects:
            return "no defect found; this is not a proof"
        count, names = len(self.defects), ", ".join(finding.name for finding in self.defects)
        return f"{count} defect{'s' if count > 1 else ''} found: {names}"

    def to_json(self) -> str:
        """The content of the file; the verdict follows from the rest."""
        return json.dumps({"verdict": self.verdict, "sound": self.sound, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the file."""
        raw = parse_json(text)
        return cls(
            str(raw["model"]), str(raw["digest"]), dict(raw["settings"]),
            tuple(Finding(**finding) for finding in raw["findings"]),
            tuple(Control(**control) for control in raw["controls"]), float(raw["seconds"]),
        )  # fmt: skip


def read_audit(path: Path) -> Audit:
    """The audit in a file."""
    try:
        return Audit.from_json(read_text(path))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{path} cannot be read ({error}); audit the model again") from error
