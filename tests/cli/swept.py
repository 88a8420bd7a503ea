"""A small sweep file, and a sweep that is killed at a write, for a process of its own."""

import os
import signal
from pathlib import Path

from ars.cli.main import main

BASE = """
data: {passes: 1}
classifier: {width: 4}
mask: {width: 2}
train: {epochs: 1, batch_size: 256, precision: float32}
certify: {examples: 12, n_select: 20, n_estimate: 50, precision: float32}
"""
SWEEP = """
recipe: base.yaml
groups:
  - {methods: [cohen], sigma: [0.5], vote: 10, keep_weights: true}
  - {methods: [static_mask], sigma: [0.5], seeds: [3], vote: 0}
"""
CELLS = ["cohen-s0.5-seed0", "static_mask-s0.5-seed3"]


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
