"""For processes of their own: certifications and trainings that are killed at a chosen moment of a write."""

import os
import signal

from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.training import train_run


def certify_and_die(call, moment, *arguments, **options):
    die_at(call, moment)
    certify_run(*arguments, **options)


def train_and_die(call, moment, *arguments, **options):
    die_at(call, moment)
    train_run(*arguments, **options)


def die_at(call, moment):
    """SIGKILL in place of, or right after, the moment-th os.link, os.replace or os.fsync."""
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
