"""Append-only JSONL records: one line an image, with all the votes, so that any bound can be computed later.

A killed process leaves at most a cut last line; reading passes over it, and the next append removes it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from ars.certification.certificate import Certificate


class RecordError(ValueError):
    """A record file that cannot be what it says it is."""


@dataclass(frozen=True)
class Record:
    """A certificate, the true label, the subset of the benchmark it belongs to and what it took."""

    certificate: Certificate
    truth: int
    subset: str
    seconds: float

    @property
    def correct(self) -> bool:
        """Whether the certified label is the true one; an abstention is not."""
        return self.certificate.label == self.truth

    def to_json(self) -> str:
        """One line of JSON, floats in full."""
        own = {"truth": self.truth, "subset": self.subset, "seconds": self.seconds}
        return json.dumps({"index": self.certificate.index, **own, **asdict(self.certificate)})

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read a line back; a field that is missing or unknown is an error."""
        raw: dict[str, Any] = json.loads(line)
        if not isinstance(raw, dict):
            raise TypeError(f"expected an object, got {type(raw).__name__}")
        own = {name: raw.pop(name) for name in ("truth", "subset", "seconds")}
        expected = {field.name for field in fields(Certificate)}
        if raw.keys() != expected:
            raise KeyError(f"fields {sorted(raw.keys() ^ expected)} are missing or unknown")
        for name in ("counts", "select_counts", "sigmas"):
            raw[name] = tuple(raw[name])
        return cls(Certificate(**raw), **own)


def read_records(path: Path) -> list[Record]:
    """Every whole line of a record file; a last line that was cut off is passed over."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"cannot read records from {path}: {error}") from error
    return list(_parse(path, text))


def _parse(path: Path, text: str) -> Iterator[Record]:
    *lines, _cut = text.split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield Record.from_json(line)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"{path}, line {number}, is not a certification record ({error}); move the file away to start anew"
            ) from error


class RecordFile:
    """A record file that is being written; what was there before is kept and not done again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self.records = read_records(path)
            whole = path.read_bytes()
            os.truncate(path, whole.rfind(b"\n") + 1)
        else:
            self.records = []

    @property
    def done(self) -> set[int]:
        """The indices of the images that have a record."""
        return {record.certificate.index for record in self.records}

    def append(self, record: Record) -> None:
        """Write one line and push it to the disk before going on."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(record.to_json() + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.records.append(record)
