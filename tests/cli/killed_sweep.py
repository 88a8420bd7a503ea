"""For a process of its own: a sweep that is killed at its n-th write."""

import os
import signal

from ars.cli import main


def sweep_and_die(moment, arguments):
    """SIGKILL right before the moment-th os.replace where moment is odd, right after it where it is even."""
    real, count = os.replace, 0

    def dying(*parts, **more):
        nonlocal count
        count += 1
        if count == moment and moment % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*parts, **more)
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = dying
    raise SystemExit(main(arguments))
