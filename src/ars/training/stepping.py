"""One step of training: loss, gradients, update."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ars.smoothing.mechanism import Generators
from ars.training.objective import Objective


class Stepper:
    """Takes a batch through the objective and updates the weights."""

    def __init__(self, objective: Objective, optimizers: Mapping[str, torch.optim.Optimizer]) -> None:
        self.objective, self.optimizers = objective, optimizers

    def __call__(
        self, images: Tensor, labels: Tensor, generator: Generators, rates: Mapping[str, float]
    ) -> tuple[Tensor, Tensor]:
        """One step at these learning rates; returns the loss and the share of right answers, on the device."""
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rates[name]
            optimizer.zero_grad()
        loss, accuracy = self.objective(images.to(memory_format=torch.channels_last), labels, generator)
        loss.backward()
        for optimizer in self.optimizers.values():
            optimizer.step()
        return loss.detach(), accuracy
