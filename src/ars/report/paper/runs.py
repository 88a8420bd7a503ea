"""What was run on what, and how long it took: one line per sweep, benchmark, size and method."""

import math
from collections.abc import Sequence
from itertools import groupby

from ars.report.measures import method_name, method_rank
from ars.report.paper.cells import Cell
from ars.report.paper.entries import Entry
from ars.report.paper.sheet import Line, Number, Sheet, numbers, words

PARTS = ("train_seconds", "certify_seconds", "vote_seconds")


def what_was_run(entries: Sequence[Entry]) -> Sheet:
    """The trainings and certifications that are here, the devices and the minutes."""
    cells = sorted((cell for entry in entries for cell in entry.cells), key=_key)
    lines = [_line(tuple(group)) for _, group in groupby(cells, key=_key)]
    columns = (
        *words(sweep="sweep", benchmark="benchmark", k="k", method="method", sigmas="σ"),
        *words(cells="cells", certified="certified", voted="voted"),
        *numbers(training_minutes="training minutes", certification_minutes="certification minutes"),
        *numbers(vote_minutes="vote minutes"),
        *words(device="trained on", certified_on="certified on", torch="torch"),
    )
    notes = (
        "A cell is one training: a method, k, σ and seed. Minutes are summed over the cells, as timed.",
        "Where certified on is empty, that was not recorded yet when the cell was certified.",
        "A start that several cells share, where a recipe has one, counts in the training of each of them.",
    )
    return Sheet("runs", "What was run, on what, and how long it took", columns, tuple(lines), notes, tuple(cells))


def _line(cells: tuple[Cell, ...]) -> Line:
    first = cells[0]
    sigmas = ", ".join(f"{sigma:g}" for sigma in sorted({cell.sigma for cell in cells}))
    minutes = [[cell.seconds[part] / 60 for cell in cells if part in cell.seconds] for part in PARTS]
    values = (
        first.sweep,
        first.benchmark,
        first.k,
        method_name(first.method),
        sigmas,
        len(cells),
        sum(bool(cell.runs) for cell in cells),
        sum(cell.vote is not None for cell in cells),
        *(Number(math.fsum(part)) if part else None for part in minutes),
        _every("device", [cell.environment for cell in cells]),
        _every("device", [cell.certified_with for cell in cells]),
        _every("torch", [cell.environment for cell in cells]),
    )
    return Line(values, None)


def _every(name: str, environments: Sequence[dict[str, str]]) -> str | None:
    """What the environments say of this, joined; None where none says anything."""
    found = dict.fromkeys(it[name] for it in environments if name in it)
    return ", ".join(found) or None


def _key(cell: Cell) -> tuple[object, ...]:
    return cell.sweep, cell.kind, cell.k, method_rank(cell.method)
