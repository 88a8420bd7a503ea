"""Ending long work in time, at a point from which it can go on."""

import time
from collections.abc import Callable

RESERVE = 2.0  # seconds for saving what is in hand


class Budget:
    """So many minutes from now; none: as long as it takes."""

    def __init__(self, minutes: float | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        if minutes is not None and not minutes >= 0:
            raise ValueError(f"--minutes must be at least 0, got {minutes}")
        self._clock = clock
        self._deadline = None if minutes is None else clock() + 60 * minutes
        self.spent = False
        """Whether work was told to end."""

    def watch(self, expected: float = 0.0) -> Callable[[], bool]:
        """A function to ask between pieces of work: whether the next, if it takes as long as the last, ends too late.

        expected is what the first piece will take.
        """
        before = self._clock() - expected

        def enough() -> bool:
            nonlocal before
            now = self._clock()
            last, before = now - before, now
            if self._deadline is not None and now + last + RESERVE > self._deadline:
                self.spent = True
            return self.spent

        return enough

    def over(self) -> bool:
        """Whether time is up, to ask within a piece that took longer than expected: it is given up."""
        if self._deadline is not None and self._clock() + RESERVE > self._deadline:
            self.spent = True
        return self.spent
