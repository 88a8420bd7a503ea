"""JSONL records: one line per image, with all its votes and the rule that ended the draws.

An incomplete last line, for example after a disk failure, is ignored; its image then counts as not done.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ars.certification.certificate import Certificate
from ars.untrusted import MOST_UNPACKED, parse_json, read_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class ReportError(ValueError):
    """Files of a run folder from which no correct report can be made; says which and what to do."""


KINDS: dict[str, tuple[Any, str]] = {
    "truth": (int, "a whole number"), "subset": (str, "a text"), "seconds": (int | float, "a number"),
    "model": (str, "a text"),
}  # fmt: skip


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
        certificate = asdict(self.certificate)
        if not self.certificate.exact:  # a field that is written only where it differs from its default
            del certificate["exact"]
        return json.dumps({"index": self.certificate.index, **others, **certificate})

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read a line; a missing or unknown field is an error."""
        raw: dict[str, Any] = parse_json(line)
        if not isinstance(raw, dict):
            raise ValueError(f"expected an object, got {type(raw).__name__}")
        expected = {field.name for kind in (Certificate, cls) for field in fields(kind)} - {"certificate"}
        if unknown := ({"model", "exact"} | raw.keys()) ^ expected:
            raise ValueError(f"fields {sorted(unknown)} are missing or unknown")
        others = {name: raw.pop(name) for name in KINDS if name in raw}
        for name, value in others.items():
            kind, words = KINDS[name]
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{name} must be {words}, got {value!r}")
        return cls(_certificate(json.dumps(raw)), **others)


@cache
def _reader() -> "TypeAdapter[Certificate]":
    from pydantic import TypeAdapter

    return TypeAdapter(Certificate)


def _certificate(text: str) -> Certificate:
    """The certificate of a JSON text; every field must have its type."""
    from pydantic import ValidationError

    try:
        return _reader().validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{name}: {first['msg']}" if name else first["msg"]) from error


def read_records(path: Path) -> list[Record]:
    """Every complete line of a record file; an incomplete last line is ignored."""
    try:
        text = read_text(path, MOST_UNPACKED)
    except OSError as error:
        raise RecordError(f"cannot read records from {path}: {error}") from error
    except ValueError as error:  # no text, or too large
        advice = "remove the file and run the same `ars certify` again to certify its images again"
        raise RecordError(f"cannot read records from {path}: {error}; {advice}") from error
    return list(_parse(path, text))


def _parse(path: Path, text: str) -> Iterator[Record]:
    *lines, _cut = text.split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield Record.from_json(line)
        except ValueError as error:
            raise RecordError(
                f"{path}, line {number}, is not a certification record ({error}); move the file away to start again"
            ) from error
