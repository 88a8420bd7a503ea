"""Training in several processes: Accelerate sets them up and averages their gradients."""

import warnings
from collections.abc import Sequence

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from torch import nn

from ars.training.ranks import Module, Ranks
from ars.training.settings import TrainSettings
from ars.training.step import replayable


class AcceleratedRanks(Ranks):
    """The processes that torchrun started, according to its variables."""

    def __init__(self, device: torch.device) -> None:
        # Buffers are running statistics, which training only writes; those of the first process are saved.
        self.options = DistributedDataParallelKwargs(broadcast_buffers=False)
        self.accelerator = Accelerator(
            cpu=device.type == "cpu", mixed_precision="no", kwargs_handlers=[self.options]
        )  # the objective sets its own precision
        self.rank, self.size = self.accelerator.process_index, self.accelerator.num_processes

    def check(self, settings: TrainSettings) -> None:
        """Refuse settings that these processes cannot train with."""
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
        """The values of every process, in order of rank; all must call this at the same step."""
        mine = torch.tensor([list(values)], dtype=torch.float64, device=self.accelerator.device)
        every: list[list[float]] = self.accelerator.gather(mine).tolist()
        return every

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.accelerator.wait_for_everyone()

    def close(self) -> None:
        """End the process group."""
        self.accelerator.end_training()
