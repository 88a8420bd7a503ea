"""What went wrong, in one sentence: what was refused, where, and what to do."""

import errno
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ars.certification.writing import WriteError
from ars.data.errors import DataWarning

ROOM = "make room and run the same command again"
RIGHTS = "change its rights, or name another place"
IN_THE_WAY = "a file is in the way: move it, or name another place"
ADVICE = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EROFS: "nothing can be written there; name another place",
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EEXIST: IN_THE_WAY,
    errno.ENOTDIR: IN_THE_WAY,
    errno.EISDIR: "it is a folder; name a file",
    errno.ENOENT: "check the path",
    errno.ELOOP: "a link leads back to itself: remove it, or name another place",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def plain_warnings() -> Iterator[None]:
    """What the data warns of is said in a line of its own, without the place in the code."""
    usual = warnings.formatwarning

    def plain(message: Warning | str, category: type[Warning], *where: Any, **line: Any) -> str:
        return f"ars: {message}\n" if issubclass(category, DataWarning) else usual(message, category, *where, **line)

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = usual


def told(error: Exception) -> str:
    """The sentence of an error; one that comes from the system as a number gets the place and advice.

    >>> told(FileExistsError(errno.EEXIST, "File exists", "runs"))
    'runs: File exists; a file is in the way: move it, or name another place'
    >>> told(ModuleNotFoundError("No module named 'scipy.fft'", name="scipy.fft"))
    'the package scipy is missing; install ars again with all that it needs: pip install .'
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"the package {package} is missing; install ars again with all that it needs: pip install ."
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; ask for less, such as smaller images or a narrower network"
    cause = error.__cause__
    if isinstance(error, WriteError) and isinstance(cause, OSError) and ADVICE.get(cause.errno or 0) == IN_THE_WAY:
        return told(cause)  # neither room nor rights would help
    if not isinstance(error, OSError) or error.errno is None or error.strerror is None:
        return " ".join(str(error).split())
    place = error.filename
    if place is None and ADVICE.get(error.errno) == ROOM:  # a write says not where it failed
        place = f"the disk of the output or that of temporary files ({tempfile.gettempdir()})"
    where = f"{place}: " if place is not None else ""
    advice = f"; {ADVICE[error.errno]}" if error.errno in ADVICE else ""
    return f"{where}{error.strerror}{advice}"
