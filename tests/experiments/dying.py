"""For processes of their own: certifications that are killed at a chosen moment of a write."""

import os
import signal

from ars.experiments.certifying import certify_run


def certify_and_die(call, moment, *arguments, **options):
    """SIGKILL in place of, or right after, the moment-th os.replace or os.fsync."""
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
    certify_run(*arguments, **options)
