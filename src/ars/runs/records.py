"""JSONL records: one line per image, with all its votes and the rule that ended the draws.

An incomplete last line, for example after a disk failure, is ignored; its image then counts as not done.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from ars.certification.certificate import Certificate
from ars.certification.settings import Schedule


class ReportError(ValueError):
    """Files of a run folder from which no correct report can be made; says which and what to do."""


class RecordError(ReportError):
    """A record file that is damaged or inconsistent."""


@dataclass(frozen=True)
class Record:
    """A certificate, the true label, the subset of the benchmark, the seconds it took, and the digest of the model.

    model is the digest in the manifest; an earlier version did not write it.
    """

    certificate: Certificate
    truth: int
    subset: str
    seconds: float
    model: str = ""

    @property
    def correct(self) -> bool:
        """Whether the certified label is the true one; an abstention is not correct."""
        return self.certificate.label == self.truth

    def to_json(self) -> str:
        """One line of JSON, floats in full."""
        others = {"truth": self.truth, "subset": self.subset, "seconds": self.seconds}
        others |= {"model": self.model} if self.model else {}
        return json.dumps({"index": self.certificate.index, **others, **asdict(self.certificate)})

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read a line; a missing or unknown field is an error."""
        raw: dict[str, Any] = json.loads(line)
        if not isinstance(raw, dict):
            raise TypeError(f"expected an object, got {type(raw).__name__}")
        others = {name: raw.pop(name) for name in ("truth", "subset", "seconds")} | {"model": raw.pop("model", "")}
        expected = {field.name for field in fields(Certificate)}
        if raw.keys() != expected:
            raise KeyError(f"fields {sorted(raw.keys() ^ expected)} are missing or unknown")
        for name in ("counts", "select_counts", "sigmas"):
            raw[name] = tuple(raw[name])
        schedule = raw["schedule"]
        raw["schedule"] = Schedule(**{**schedule, "radii": tuple(schedule["radii"])})
        return cls(Certificate(**raw), **others)


def read_records(path: Path) -> list[Record]:
    """Every complete line of a record file; an incomplete last line is ignored."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot read records from {path}: {error}") from error
    except UnicodeDecodeError as error:
        advice = "remove the file and run the same `ars certify` again to certify its images again"
        raise RecordError(f"cannot read records from {path}: {error}; {advice}") from error
    return list(_parse(path, text))


def _parse(path: Path, text: str) -> Iterator[Record]:
    *lines, _cut = text.split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield Record.from_json(line)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"{path}, line {number}, is not a certification record ({error}); move the file away to start again"
            ) from error
