"""Ctrl-C, SIGTERM and a lost terminal stop long work at the next safe point; a second Ctrl-C stops it at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

STDERR = 2
_LATE = {"asked": False}  # whether a stop was requested after the work had no safe point left


@contextmanager
def stoppable(notice: str = "", *, at_once: bool = True) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether to stop; notice is printed at the first request.

    Until that function is first called, no work can be lost. A Ctrl-C then ends the program at once, unless several
    processes have to agree (at_once=False).
    """
    asked, polled = False, not at_once

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or not polled:
            raise KeyboardInterrupt
        asked = True
        if notice:
            with suppress(OSError):  # print is not reentrant: the signal may have interrupted one
                os.write(STDERR, f"\n{notice}\n".encode())

    def stop() -> bool:
        nonlocal polled
        polled = True
        return asked

    with _handled(ask, signal.SIGINT, *_end_signals()):
        yield stop
        _LATE["asked"] = asked


def end_if_asked() -> None:
    """Between two pieces of work: stop if that was requested after the last safe point of the first."""
    if _LATE["asked"]:
        _LATE["asked"] = False
        raise KeyboardInterrupt


@contextmanager
def terminable() -> Iterator[None]:
    """Treat every request to end the program as Ctrl-C, also outside of stoppable()."""
    _LATE["asked"] = False
    with _handled(signal.default_int_handler, *_end_signals()):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], Any], *numbers: signal.Signals) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def _end_signals() -> list[signal.Signals]:
    """The signals other than Ctrl-C's that request a program to end; under nohup a lost terminal is ignored."""
    lost = getattr(signal, "SIGHUP", None)  # Windows has none
    return [signal.SIGTERM, *([lost] if lost and signal.getsignal(lost) != signal.SIG_IGN else [])]
