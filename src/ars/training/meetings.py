"""When the training loop reads the device, and what its processes agree on then."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ars.training.ranks import Ranks

NEVER = 2**62


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


SECONDS = 1.0


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
        affordable = (step - self._last) * SECONDS / max(now - self._met, 1e-9)
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
