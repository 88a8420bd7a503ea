"""Locks: one process at a time in a folder; loads no torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ars.atomic import remove_stale

Work = Literal["attack", "sweep", "train", "vote"]


class TakenError(ValueError):
    """A folder that another process is using, or that nothing can be saved in."""


class BusyError(TakenError):
    """A folder that another process is using."""


def check_kept(path: Path) -> None:
    """Refuse to continue work on a folder that was removed, or moved, since the work began: nothing would fit to it."""
    if not path.exists():
        raise TakenError(f"{path} was removed meanwhile; put it back, or start the command again")


@contextmanager
def locked(folder: Path, work: Work, of: str = "") -> Iterator[None]:
    """Create the folder and lock it for this work; refused while another process holds the lock.

    With a name (of), only the part of the work that has this name is locked. The lock always ends with its process.
    """
    from filelock import FileLock, Timeout

    if folder.exists() and not folder.is_dir():
        raise TakenError(f"{folder} is a file; choose another folder with --out")
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise TakenError(f"the name {folder} is not UTF-8, so no model can be saved; choose another --out") from None
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f".{'-'.join(filter(None, [work, of]))}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        other = "" if work in ("attack", "vote") else ", or choose another --out"
        raise BusyError(f"another ars {work} is running in {folder}; wait until it ends{other}") from None
    try:
        for place in (folder, *(path for path in folder.glob("*") if path.is_dir() and not path.is_symlink())):
            remove_stale(place)
        yield
    finally:
        lock.release()
