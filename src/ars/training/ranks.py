"""The processes that train one model together: a single one here, several in ars.training.distributed."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

from ars.smoothing.mechanism import Fresh, Rows
from ars.training.settings import TrainSettings

Module = TypeVar("Module", bound=nn.Module)


class Ranks:
    """One of size processes; the first of them writes the files and shows the progress."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files and shows the progress."""
        return self.rank == 0

    def check(self, settings: TrainSettings) -> None:
        """Refuse settings that these processes cannot train with."""
        parts = self.size * settings.accumulate
        if settings.batch_size % parts:
            below = settings.batch_size // parts * parts
            number = f"{self.size} times {settings.accumulate}" if settings.accumulate > 1 else str(self.size)
            raise ValueError(
                f"train.batch_size is that of all processes and must be divisible by their number (and by "
                f"train.accumulate), got {settings.batch_size} for {number}; use {below or parts}, or start fewer"
            )

    @property
    def rows(self) -> slice:
        """The rows of the whole batch that this process trains on: every size-th."""
        return slice(self.rank, None, self.size)

    def noise(self, generator: torch.Generator) -> Fresh:
        """The noise of those rows, from the generator of the whole batch."""
        return generator if self.size == 1 else Rows(generator, self.rank, self.size)

    def wrap(self, module: Module, settings: TrainSettings) -> Module:
        """The module, with gradients averaged over the processes."""
        return module

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """The values of every process, in order of rank; all must call this at the same step."""
        return [list(values)]

    def wait(self) -> None:
        """Wait until all processes are here."""
