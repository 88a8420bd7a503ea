"""The progress of a training, for the log and for display."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ars.atomic import write_whole


@dataclass(frozen=True)
class Progress:
    """The state of training after an epoch, as written to train.jsonl; accuracies are of single noisy draws."""

    epoch: int
    epochs: int
    loss: float
    accuracy: float
    validation_accuracy: float
    mean_square_mask: float
    """The mean squared weight of the last step's mask on validation images; 1 masks nothing."""
    share: float | None
    """The first step's current share of the noise budget; null for a method with one step."""
    images_a_second: float
    start_up_seconds: float | None
    """The time of a session's first steps (compiling kernels, capturing a graph); null in later epochs."""
    steps: int | None = None
    """The steps of a last epoch that train.max_steps ended early; null for a whole epoch."""


@dataclass(frozen=True)
class Standing:
    """The state of training between two steps; loss and accuracy are means over the epoch so far."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    images_a_second: float
    seconds_left: float


class Pace:
    """The speed of a session's steps; its first steps, which compile and capture, are timed separately."""

    def __init__(self, step: int, *, steps: int, batch_size: int, slow: int) -> None:
        """A session that begins at this step; its first slow steps are the start-up."""
        self.steps, self.batch_size = steps, batch_size
        self._ready, self._epochs = step + slow, 0
        self._began = self._since = time.monotonic()
        self._first = step
        self._start_up: float | None = None

    def begin_epoch(self, step: int) -> None:
        """Start timing at this step."""
        self._since, self._first = time.monotonic(), step
        self._epochs += 1

    def read(self, step: int) -> tuple[float, float]:
        """Images per second in the epoch so far, and the estimated seconds for the rest."""
        now = time.monotonic()
        rate = (step - self._first) * self.batch_size / (now - self._since)
        if self._start_up is None and step > self._ready:
            self._start_up, self._since, self._first = now - self._began, now, step
        return rate, (self.steps - step) * self.batch_size / rate

    @property
    def start_up(self) -> float | None:
        """The seconds of the start-up, in the session's first epoch."""
        return self._start_up if self._epochs == 1 else None


def first_share(sigmas: Sequence[float]) -> float | None:
    """The first step's share of the noise budget, to six decimals.

    >>> first_share([2**0.5, 2**0.5]), first_share([1.0])
    (0.5, None)
    """
    spent = [sigma**-2 for sigma in sigmas]
    return round(spent[0] / sum(spent), 6) if len(spent) > 1 else None


def write_log(path: Path, progress: Progress) -> None:
    """Write the log with a line for this epoch; lines of epochs that are repeated are dropped."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    write_whole(path, "\n".join([*lines[: progress.epoch - 1], json.dumps(asdict(progress))]) + "\n")
