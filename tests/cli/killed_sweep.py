"""For a process of its own: a sweep that is killed at a write."""

import os
import signal
from pathlib import Path

from ars.cli.main import main


def sweep_and_die(deaths, names, after, arguments):
    """SIGKILL at the first write of these files, or of any, that the file deaths does not tell of yet.

    A write is known by its place and by whether there was something before; one is died at right before it and, where
    that is asked for, the next time right after it.
    """
    real, died = os.replace, deaths.read_text().splitlines() if deaths.exists() else []

    def dying(source, target, **more):
        write = f"{target} {'again' if Path(target).exists() else 'new'}"
        mortal = names is None or Path(target).name in names
        if mortal and f"before {write}" not in died:
            die(f"before {write}")
        real(source, target, **more)
        if mortal and after and f"after {write}" not in died:
            die(f"after {write}")

    def die(moment):
        with deaths.open("a") as file:
            print(moment, file=file)
        os.kill(os.getpid(), signal.SIGKILL)

    os.replace = dying
    raise SystemExit(main(arguments))
