"""Code that somebody gave: what fails in it is told in a sentence, with the line of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

import torch

import ars
from ars.certification.shortage import is_short_of_memory

LIBRARIES = tuple(str(Path(str(package.__file__)).parent) for package in (torch, ars))

NOT_TORCHS = "what a step gets as its generator may be many: hand it on to ars.normal_like or ars.draw_like"


@contextmanager
def telling(name: str | None) -> Iterator[None]:
    """While this lasts, an error of any kind in the code of this name becomes a sentence; None: all code is ours.

    Those that are sentences already, and memory that is short, are left to whoever knows about them.
    """
    try:
        yield
    except (ValueError, ArithmeticError, OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        if name is None or is_short_of_memory(error):
            raise
        first = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
        advice = NOT_TORCHS if "generator=list" in first else "mend it, then run the same command again"
        raise ValueError(f"{name} failed: {first}{_place(error)}; {advice}") from error


def _place(error: Exception) -> str:
    """The last line of somebody else's than torch's and ours that an error came through."""
    lines = [it for it in extract_tb(error.__traceback__) if not it.filename.startswith(LIBRARIES)]
    return f" ({lines[-1].filename}, line {lines[-1].lineno})" if lines else ""
