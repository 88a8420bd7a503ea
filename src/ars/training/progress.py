"""Where a training stands, for the log and for the eye."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ars.certification.writing import write_whole


@dataclass(frozen=True)
class Progress:
    """Where training stands after an epoch, as written to train.jsonl; accuracies are of single noisy draws."""

    epoch: int
    epochs: int
    loss: float
    accuracy: float
    validation_accuracy: float
    mean_square_mask: float
    """How open the last step's mask is on validation images; 1 masks nothing."""
    share: float | None
    """The first step's share of the noise budget, fixed or learned so far; null where there is one step."""
    images_a_second: float
    start_up_seconds: float | None
    """What the first steps of a session took (kernels are compiled, a graph is captured); null in later epochs."""
    steps: int | None = None
    """How many steps a last epoch had that train.max_steps cut short; null of a whole one."""


@dataclass(frozen=True)
class Standing:
    """Where training stands between two steps; loss and accuracy are the means of the epoch so far."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    images_a_second: float
    seconds_left: float


class Pace:
    """How fast the steps of a session come; the first of them, which make the others fast, are counted apart."""

    def __init__(self, step: int, *, steps: int, batch_size: int, slow: int) -> None:
        """The session begins at this step; its first slow steps are its start-up."""
        self.steps, self.batch_size = steps, batch_size
        self._ready, self._epochs = step + slow, 0
        self._began = self._since = time.monotonic()
        self._first = step
        self._start_up: float | None = None

    def begin_epoch(self, step: int) -> None:
        """Count from here."""
        self._since, self._first = time.monotonic(), step
        self._epochs += 1

    def read(self, step: int) -> tuple[float, float]:
        """Images a second of the epoch so far, and the seconds that the rest takes."""
        now = time.monotonic()
        rate = (step - self._first) * self.batch_size / (now - self._since)
        if self._start_up is None and step > self._ready:
            self._start_up, self._since, self._first = now - self._began, now, step
        return rate, (self.steps - step) * self.batch_size / rate

    @property
    def start_up(self) -> float | None:
        """The seconds of the start-up, in the epoch that it was part of."""
        return self._start_up if self._epochs == 1 else None


def first_share(sigmas: Sequence[float]) -> float | None:
    """The first step's share of the noise budget, to six decimals.

    >>> first_share([2**0.5, 2**0.5]), first_share([1.0])
    (0.5, None)
    """
    spent = [sigma**-2 for sigma in sigmas]
    return round(spent[0] / sum(spent), 6) if len(spent) > 1 else None


def write_log(path: Path, progress: Progress) -> None:
    """Add a line for the epoch in a new file; lines of epochs that are being done again are dropped."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    write_whole(path, "\n".join([*lines[: progress.epoch - 1], json.dumps(asdict(progress))]) + "\n")
