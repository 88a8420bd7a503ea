"""The streams that a command writes to, which may be closed, full or of another encoding."""

import contextlib
import io
import os
import sys
from pathlib import Path


def usable_streams() -> None:
    """Put nothing in the place of a closed error stream, and a sign in that of letters that an encoding lacks."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", errors="replace")  # noqa: SIM115 - as long as the process runs
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def say(text: str) -> None:
    """A last line on the error stream; where that cannot be written, the exit code says it alone."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:  # print would take the output for it
            print(text, file=sys.stderr, flush=True)
