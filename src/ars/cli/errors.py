"""Errors as one sentence, on streams that may be closed, full or in another encoding."""

import contextlib
import errno
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ars.atomic import WriteError
from ars.data.settings import DataWarning
from ars.names import shown


def usable_streams() -> None:
    """Replace a closed error stream by the null device, and replace letters that the output's encoding lacks."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", errors="replace")  # noqa: SIM115 - open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def tell(text: str, *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print a text at once; names in it may come from files of others."""
    print(shown(text), file=file, end=end, flush=True)


def say(text: str) -> None:
    """Print a last line on the error stream; if that fails, only the exit code reports the error."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:  # print(file=None) would write to the output
            tell(text, file=sys.stderr)


ROOM = "free disk space and run the same command again"
RIGHTS = "change its permissions, or choose another path"
IN_THE_WAY = "a file is in the way: move it, or choose another path"
ADVICE = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EROFS: "the file system is read-only; choose another path",
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EEXIST: IN_THE_WAY,
    errno.ENOTDIR: IN_THE_WAY,
    errno.EISDIR: "it is a folder; name a file",
    errno.ENOENT: "check the path",
    errno.ELOOP: "a link leads back to itself: remove it, or choose another path",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each warning about data on its own line, without its place in the code."""
    default = warnings.formatwarning

    def plain(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
        return (
            f"ars: {shown(str(message))}\n"
            if issubclass(category, DataWarning)
            else default(message, category, *where, **line)
        )

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = default


def describe_error(error: Exception) -> str:
    """The sentence of an error; an error number of the system gets its path and advice.

    >>> describe_error(FileExistsError(errno.EEXIST, "File exists", "runs"))
    'runs: File exists; a file is in the way: move it, or choose another path'
    >>> describe_error(ModuleNotFoundError("No module named 'scipy.fft'", name="scipy.fft"))
    'the package scipy is missing; install ars again with its dependencies: pip install .'
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"the package {package} is missing; install ars again with its dependencies: pip install ."
    if isinstance(error, MemoryError):
        return "there is not enough memory; use less, for example smaller images or a narrower network"
    cause = error.__cause__
    if isinstance(error, WriteError) and isinstance(cause, OSError) and ADVICE.get(cause.errno or 0) == IN_THE_WAY:
        return describe_error(cause)  # more room or other permissions would not help
    if not isinstance(error, OSError) or error.errno is None or error.strerror is None:
        return " ".join(str(error).split())
    place = error.filename
    if place is None and ADVICE.get(error.errno) == ROOM:  # a failed write does not name its file
        place = f"the disk of the output or of temporary files ({tempfile.gettempdir()})"
    where = f"{place}: " if place is not None else ""
    advice = f"; {ADVICE[error.errno]}" if error.errno in ADVICE else ""
    return f"{where}{error.strerror}{advice}"
