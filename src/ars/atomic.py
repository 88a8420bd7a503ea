"""Write files so that they are whole or absent, even if the process dies or another one writes the same file."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".part"
STALE_SECONDS = 3600.0


class WriteError(OSError):
    """A file could not be written; the message is one sentence."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as a whole or not at all."""
    with whole(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_new(path: Path, content: str) -> None:
    """Write a file unless it exists: if several processes write it at the same time, the first one's stays."""
    with whole(path, put=_put_unless_there) as temporary:
        temporary.write_bytes(content.encode())


@contextmanager
def whole(path: Path, put: Callable[[Path, Path], object] = Path.replace) -> Iterator[Path]:
    """Yield the path of a temporary file; when the block ends, the file is flushed to disk and renamed to path.

    At any moment either the old file or the whole new one exists. The temporary file is removed on failure.
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
    except WriteError:  # about another file that the block wrote
        raise
    except IsADirectoryError as error:
        raise WriteError(f"cannot write {path}: a folder is in the way; move it, or name another place") from error
    except OSError as error:
        raise WriteError(
            f"cannot write {path}: {error.strerror or error}; earlier output is kept, so free disk space or make the "
            "folder writable, and run the same command again"
        ) from error
    with suppress(OSError):  # flush the new name too, if the file system can
        _push(path.parent)


def remove_stale(folder: Path) -> None:
    """Remove temporary files that a killed process left; recent ones may belong to a process that is writing."""
    for part in folder.glob(f".*{PART}"):
        with suppress(OSError):
            if abs(time.time() - part.stat().st_mtime) > STALE_SECONDS:  # abs: the clock may have been set back
                part.unlink()


def _put_unless_there(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links: here the last writer's file stays
        temporary.replace(path)


def _push(path: Path) -> None:
    """Flush a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
