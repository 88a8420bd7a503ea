"""Logs of certified images as in locuslab/smoothing, in and out: tab-separated lines without votes; loads no torch."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ars.runs.records import Record, ReportError
from ars.theory.rounding import truncate
from ars.untrusted import MOST_UNPACKED, read_text

COLUMNS = ("idx", "label", "predict", "radius", "correct", "time")
ABSTAINS = -1
DECIMALS = 9


@dataclass(frozen=True)
class Line:
    """The answer for one image: its index, true class, predicted class (-1: abstained) and radius in pixel units."""

    index: int
    truth: int
    predicted: int
    radius: float


@dataclass(frozen=True)
class Log:
    """A log that was read. It holds no votes, no noise level, no alpha and no norm, so nothing in it can be checked."""

    name: str
    lines: tuple[Line, ...]


def to_log(records: Sequence[Record]) -> str:
    """One line per image; radii are cut after the ninth decimal, and an abstention predicts -1 with radius 0."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in records:
        found = record.certificate
        label = ABSTAINS if found.label is None else found.label
        time = timedelta(seconds=record.seconds)
        radius = truncate(found.radius, DECIMALS)
        writer.writerow([found.index, record.truth, label, radius, int(record.correct), time])
    return text.getvalue()


def read_log(path: Path) -> Log:
    """Read a log; lines that contradict themselves are refused."""
    try:
        header, *rows = csv.reader(io.StringIO(read_text(path, MOST_UNPACKED)), delimiter="\t")
        if tuple(header) != COLUMNS:
            raise ValueError(f"its first line must be {', '.join(COLUMNS)}, separated by tabs")
        lines = tuple(_line(number, row) for number, row in enumerate(rows, start=2) if row)
    except (OSError, ValueError, csv.Error) as error:
        raise ReportError(f"{path} cannot be read as a log of certified images: {error}") from error
    indices = [line.index for line in lines]
    if not lines or len(set(indices)) < len(indices):
        raise ReportError(f"{path} must hold each image once, got {'an image twice' if lines else 'none'}")
    return Log(path.stem, lines)


def _line(number: int, row: Sequence[str]) -> Line:
    try:
        index, truth, predicted, radius, correct = int(row[0]), int(row[1]), int(row[2]), float(row[3]), int(row[4])
    except (IndexError, ValueError) as error:
        raise ValueError(f"line {number} must hold {', '.join(COLUMNS)}, got {' '.join(row)}") from error
    if not 0 <= radius < math.inf or bool(correct) != (truth == predicted) or (predicted == ABSTAINS and radius):
        raise ValueError(f"line {number} contradicts itself: {' '.join(row)}")
    return Line(index, truth, predicted, radius)
