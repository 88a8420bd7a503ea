"""Files that are whole or not there, whenever the process dies and whoever else writes."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".part"
STALE_SECONDS = 3600.0


class WriteError(OSError):
    """A file that could not be written, in one sentence."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that is there whole or not at all."""
    with whole(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_new(path: Path, content: str) -> None:
    """Write a file unless it is there: of processes that write it at the same time the first one's stays."""
    with whole(path, put=_put_unless_there) as temporary:
        temporary.write_bytes(content.encode())


@contextmanager
def whole(path: Path, put: Callable[[Path, Path], object] = Path.replace) -> Iterator[Path]:
    """Yield a temporary file's path; what the block wrote there is pushed to the disk and put in place.

    The old file or the whole new one is there at any moment. The temporary file is removed on failure.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            _push(temporary)
            put(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except WriteError:  # of another file, that the block wrote
        raise
    except IsADirectoryError as error:
        raise WriteError(f"cannot write {path}: a folder is in the way; move it, or name another place") from error
    except OSError as error:
        raise WriteError(
            f"cannot write {path}: {error.strerror or error}; all that was written before is kept, so make room or "
            "make the folder writable, and run the same command again"
        ) from error
    with suppress(OSError):  # the new name too, where the file system can
        _push(path.parent)


def remove_stale(folder: Path) -> None:
    """Remove temporary files that a killed process left; younger ones may belong to a process that is writing."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):
            if abs(time.time() - part.stat().st_mtime) > STALE_SECONDS:  # or of a clock that was set back
                part.unlink()


def _put_unless_there(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links, where the last one's stays
        temporary.replace(path)


def _push(path: Path) -> None:
    """Have the system write a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
