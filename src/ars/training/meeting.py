"""About once a second all ranks read their counts and put them on one small table, so that all decide the same."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ars.training.ranks import Ranks
from ars.training.tally import Tally

SECONDS = 1.0


@dataclass(frozen=True)
class Decision:
    """What a meeting came to; loss and accuracy are sums over the steps of the epoch so far."""

    loss: float
    accuracy: float
    first_bad: int
    stop: bool
    save: bool


class Meetings:
    """Held after the first step, then twice as far apart each time until about a second lies between them.

    A signal may reach some processes only, and their clocks differ: any of them stops all, the first says when to save
    and when to meet again.
    """

    def __init__(self, ranks: Ranks, tally: Tally, *, step: int, save_seconds: float) -> None:
        self.ranks, self.tally, self.save_seconds = ranks, tally, save_seconds
        self._last, self._gap = step, 1
        self._met = self._saved = time.monotonic()

    def due(self, step: int, stop: Callable[[], bool]) -> bool:
        """Whether to meet after this step: as agreed, or at once where a process that is alone is asked to stop."""
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
