"""For a process of its own: work that is killed at a chosen moment of a write."""

import os
import signal


def work_and_die(call, moment, work, *arguments, **options):
    """Do the work; SIGKILL in place of the moment-th os.link, os.replace or os.fsync, or right after it.

    call names the function and says whether the process dies after it.
    """
    name, after = call
    real, count = getattr(os, name), 0

    def dying(*parts, **more):
        nonlocal count
        count += 1
        if count == moment and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*parts, **more)
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(os, name, dying)
    work(*arguments, **options)
