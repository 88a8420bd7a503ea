"""What a training keeps count of without ever making the device wait."""

import torch
from torch import Tensor

NEVER = 2**62


class Tally:
    """Summed loss and accuracy since the epoch began, and the first step whose loss was no number; on the device."""

    def __init__(self, device: torch.device) -> None:
        self.totals = torch.zeros(2, device=device)
        self._first_bad = torch.tensor(NEVER, device=device)

    def add(self, loss: Tensor, accuracy: Tensor, *, step: int) -> None:
        """Count one step."""
        self.totals += torch.stack([loss, accuracy])
        self._first_bad = torch.minimum(self._first_bad, torch.where(loss.isfinite(), NEVER, step))

    def read(self) -> tuple[float, float, int]:
        """Both sums and the first bad step, NEVER where there was none; waits for the device."""
        loss, accuracy = self.totals.tolist()
        return loss, accuracy, int(self._first_bad)

    def put(self, loss: float, accuracy: float) -> None:
        """Go on from these sums: those of a checkpoint, the means over the ranks, or zeros."""
        self.totals = torch.tensor([loss, accuracy], device=self.totals.device)
