"""The processes that train one model together, a single one or several; Accelerate averages their gradients."""

import warnings
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

from ars.smoothing.mechanism import Fresh, Rows
from ars.training.settings import TrainSettings
from ars.training.step import replayable

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


class AcceleratedRanks(Ranks):
    """The processes that torchrun started, according to its variables."""

    def __init__(self, device: torch.device) -> None:
        from accelerate import Accelerator  # which a single process does not wait for
        from accelerate.utils import DistributedDataParallelKwargs

        # Buffers are running statistics, which training only writes; those of the first process are saved.
        self.options = DistributedDataParallelKwargs(broadcast_buffers=False)
        self.accelerator = Accelerator(
            cpu=device.type == "cpu", mixed_precision="no", kwargs_handlers=[self.options]
        )  # the objective sets its own precision
        self.rank, self.size = self.accelerator.process_index, self.accelerator.num_processes

    def check(self, settings: TrainSettings) -> None:
        """Also refuse train.sync_batchnorm on CPUs."""
        super().check(settings)
        if settings.sync_batchnorm and self.accelerator.device.type == "cpu":
            raise ValueError(
                "train.sync_batchnorm needs GPUs, since torch has no version for CPUs; set it to false, or train in "
                "one process"
            )

    def wrap(self, module: Module, settings: TrainSettings) -> Module:
        """The module in DistributedDataParallel; the wrapped module keeps its names and parameters.

        The user's own network may leave parameters without a gradient, so unused ones are searched at every step.
        """
        self.options.find_unused_parameters = not replayable(module)
        if settings.sync_batchnorm:
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():  # torch 2.13 renames broadcast_buffers, and 2.5 does not have the new name
            warnings.simplefilter("ignore", FutureWarning)
            wrapped: Module = self.accelerator.prepare(module)
        return wrapped

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """The values of every process, through the device."""
        mine = torch.tensor([list(values)], dtype=torch.float64, device=self.accelerator.device)
        every: list[list[float]] = self.accelerator.gather(mine).tolist()
        return every

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.accelerator.wait_for_everyone()

    def close(self) -> None:
        """End the process group."""
        self.accelerator.end_training()
