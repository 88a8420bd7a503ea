"""One step of training: loss, gradients, update."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ars.training.objective import Objective


class Stepper:
    """Takes a batch through the objective and updates the weights.

    With accumulate parts, a batch goes through one part after another and the gradients add up to those of its mean
    loss; the parts draw their noise one after another from the same generator.
    """

    def __init__(
        self, objective: Objective, optimizers: Mapping[str, torch.optim.Optimizer], *, accumulate: int = 1
    ) -> None:
        self.objective, self.optimizers, self.accumulate = objective, optimizers, accumulate

    def __call__(
        self, images: Tensor, labels: Tensor, generator: torch.Generator, rates: Mapping[str, float]
    ) -> tuple[Tensor, Tensor]:
        """One step at these learning rates; returns the loss and the share of right answers, on the device."""
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rates[name]
            optimizer.zero_grad()
        images, parts = images.to(memory_format=torch.channels_last), self.accumulate
        total = torch.zeros(2, device=images.device)  # loss, right answers
        for some, answers in zip(images.chunk(parts), labels.chunk(parts), strict=True):
            loss, accuracy = self.objective(some, answers, generator)
            (loss / parts).backward()
            total += torch.stack([loss.detach(), accuracy]) / parts
        for optimizer in self.optimizers.values():
            optimizer.step()
        return total[0], total[1]
