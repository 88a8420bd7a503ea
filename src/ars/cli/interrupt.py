"""Ctrl-C, SIGTERM and a terminal that goes away end long work at the next safe point; a second Ctrl-C at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STDERR = 2
_LATE = {"asked": False}  # whether somebody asked to stop when nothing was left to be stopped


@contextmanager
def stoppable(notice: str = "", *, at_once: bool = True) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether to stop; notice is shown when that is first asked for.

    Before the function is first called nothing is under way that could be lost, and nobody would hear: a Ctrl-C ends
    that at once, unless processes have to agree on it.
    """
    asked, heard = False, not at_once

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or not heard:
            raise KeyboardInterrupt
        asked = True
        if notice:
            with suppress(OSError):  # a print here could meet one that the signal interrupted
                os.write(STDERR, f"\n{notice}\n".encode())

    def stop() -> bool:
        nonlocal heard
        heard = True
        return asked

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, *_endings())}
    try:
        yield stop
        _LATE["asked"] = asked
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_if_asked() -> None:
    """Between two pieces of work: end if that was asked for while the last one had nothing left to stop at."""
    if _LATE["asked"]:
        _LATE["asked"] = False
        raise KeyboardInterrupt


@contextmanager
def terminable() -> Iterator[None]:
    """What asks a program to end does what Ctrl-C does, also before, between and after what is stoppable."""
    _LATE["asked"] = False
    previous = {number: signal.signal(number, signal.default_int_handler) for number in _endings()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _endings() -> list[signal.Signals]:
    """The signals besides Ctrl-C's that ask a program to end; under nohup a lost terminal does not."""
    lost = getattr(signal, "SIGHUP", None)  # Windows has none
    return [signal.SIGTERM, *([lost] if lost and signal.getsignal(lost) != signal.SIG_IGN else [])]
