"""The progress of a training: measured on the device, agreed on by its processes, shown and logged."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ars.atomic import write_whole
from ars.training.ranks import Ranks

NEVER = 2**62
MEETING_SECONDS = 1.0


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


class Tally:
    """Sums of loss and accuracy since the epoch began, and the first step with a non-finite loss; on the device."""

    def __init__(self, device: torch.device) -> None:
        self.totals = torch.zeros(2, device=device)
        self._first_bad = torch.tensor(NEVER, device=device)

    def add(self, loss: Tensor, accuracy: Tensor, *, step: int) -> None:
        """Count one step."""
        self.totals += torch.stack([loss, accuracy])
        self._first_bad = torch.minimum(self._first_bad, torch.where(loss.isfinite(), NEVER, step))

    def read(self) -> tuple[float, float, int]:
        """Both sums and the first bad step, or NEVER; waits for the device."""
        loss, accuracy = self.totals.tolist()
        return loss, accuracy, int(self._first_bad)

    def put(self, loss: float, accuracy: float) -> None:
        """Continue from these sums: those of a checkpoint, the means over the ranks, or zeros."""
        self.totals = torch.tensor([loss, accuracy], device=self.totals.device)


@dataclass(frozen=True)
class Decision:
    """The result of a meeting; loss and accuracy are sums over the steps of the epoch so far."""

    loss: float
    accuracy: float
    first_bad: int
    stop: bool
    save: bool


class Meetings:
    """Meetings of the processes: after the first step, then at doubling intervals up to about a second.

    A signal may reach only some processes, and their clocks differ. So any process can stop all of them, and the first
    one decides when to save and when to meet again.
    """

    def __init__(self, ranks: Ranks, tally: Tally, *, step: int, save_seconds: float) -> None:
        self.ranks, self.tally, self.save_seconds = ranks, tally, save_seconds
        self._last, self._gap = step, 1
        self._met = self._saved = time.monotonic()

    def due(self, step: int, stop: Callable[[], bool]) -> bool:
        """Whether to meet after this step: as agreed, or at once if a single process is asked to stop."""
        return step >= self._last + self._gap or (self.ranks.size == 1 and stop())

    def hold(self, step: int, *, stop: bool) -> Decision:
        """Read, exchange, decide."""
        now = time.monotonic()
        save = now - self._saved > self.save_seconds
        affordable = (step - self._last) * MEETING_SECONDS / max(now - self._met, 1e-9)
        gap = max(1, min(2 * self._gap, int(affordable)))
        table = self.ranks.gather([*self.tally.read(), stop, save, gap])
        losses, accuracies, bad_steps, stops, saves, gaps = zip(*table, strict=True)
        loss, accuracy = sum(losses) / len(losses), sum(accuracies) / len(accuracies)
        self.tally.put(loss, accuracy)
        self._last, self._gap = step, int(gaps[0])
        decision = Decision(loss, accuracy, int(min(bad_steps)), any(stops), bool(saves[0]))
        self._met = time.monotonic()
        if decision.save:
            self._saved = self._met
        return decision
