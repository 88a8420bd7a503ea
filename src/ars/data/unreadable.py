"""Which files of a listing cannot be read: every one is decoded, in worker processes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, Dataset

from ars.data.errors import DataError, DataWarning
from ars.data.files import Files
from ars.data.images import decode


@dataclass(frozen=True)
class _Reader(Dataset[Any]):
    files: Files
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> str:
        try:
            decode(self.files.read(self.names[index]), f"{self.files.path}/{self.names[index]}")
        except DataError as error:
            return str(error)
        return ""


def find_unreadable(files: Files, names: Sequence[str], *, workers: int = 0) -> dict[str, str]:
    """The names that cannot be read, and why."""
    loader: DataLoader[Any] = DataLoader(_Reader(files, names), batch_size=64, num_workers=workers, collate_fn=list)
    reasons = [reason for batch in loader for reason in batch]
    return {name: reason for name, reason in zip(names, reasons, strict=True) if reason}


def leave_out_unreadable(files: Files, names: Sequence[str], *, workers: int = 0) -> list[str]:
    """The names that can be read; each of the others is named in a warning."""
    bad = find_unreadable(files, names, workers=workers)
    for reason in bad.values():
        warnings.warn(f"skipped: {reason}", DataWarning, stacklevel=2)
    return [name for name in names if name not in bad]
