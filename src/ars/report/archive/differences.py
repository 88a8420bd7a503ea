"""What differs between the cells of one recipe at several k besides k itself, from their records and recipes."""

from collections.abc import Callable, Sequence

from ars.report.archive.cells import Cell
from ars.report.archive.entries import Entry


def draws_by_size(entries: Sequence[Entry]) -> str:
    """With how many draws images were certified, where sizes differ in it: '10,000 at k = 32; 50,000 at k = 64'."""
    return _by_size([entry for entry in entries if entry.images], lambda entry: entry.draws)


def epochs_by_size(entries: Sequence[Entry]) -> str:
    """How long training was, where sizes differ in it; a sum begins with what came before, on smaller images."""
    return _by_size(entries, lambda entry: epochs_of(entry.first))


def epochs_of(cell: Cell) -> str | None:
    """The epochs of a cell's training as its recipe says, those of its start first: '24 + 24'."""
    return " + ".join(map(str, _epochs(cell))) or None


def total_epochs(cell: Cell) -> int:
    """How many epochs these are together; 0 where the recipe does not say."""
    return sum(_epochs(cell))


def _epochs(cell: Cell) -> list[int]:
    train, start = cell.resolved.get("train") or {}, cell.resolved.get("start")
    if "epochs" not in train:
        return []
    classifier = cell.resolved.get("classifier") or {}
    trained = classifier.get("from_run") or classifier.get("factory")
    parts = [train["epochs"]]
    if start and not trained and cell.k > start["size"]:
        passed = [size for size in start.get("through") or () if size < cell.k]
        parts = [start["epochs"], *(train["epochs"] for _ in passed), *parts]
    return parts


def _by_size(entries: Sequence[Entry], value: Callable[[Entry], str | None]) -> str:
    """The values with the sizes that have them; empty where all have the same."""
    found: dict[int, set[str]] = {}
    for entry in entries:
        if (text := value(entry)) is not None:
            found.setdefault(entry.first.k, set()).add(text)
    sizes: dict[str, list[int]] = {}
    for k in sorted(found):
        sizes.setdefault(" or ".join(sorted(found[k])), []).append(k)
    return "; ".join(f"{text} at k = {_listed(some)}" for text, some in sizes.items()) if len(sizes) > 1 else ""


def _listed(sizes: Sequence[int]) -> str:
    *most, last = map(str, sizes)
    return f"{', '.join(most)} and {last}" if most else last
