"""One process at a time in a folder; loads no torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".sweep.lock"


class TakenError(ValueError):
    """A folder that another process works in."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and hold it; refused while another process does. The hold ends with its process in any case."""
    from filelock import FileLock, Timeout

    if folder.exists() and not folder.is_dir():
        raise TakenError(f"{folder} is a file; choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise TakenError(f"another ars sweep works in {folder}; wait until it ends, or give another --out") from None
    try:
        yield
    finally:
        lock.release()
