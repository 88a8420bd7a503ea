"""What training minimises."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ars.certification.sampling import Precision, autocast
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Generators, Images


class Objective(nn.Module):
    """The cross-entropy of one noisy draw an image, as one module, so that wrappers of modules see all of a step.

    Computes and nothing else: no host synchronisation, no randomness but the generator's (and dropout's).
    """

    def __init__(self, model: SmoothedClassifier, precision: Precision) -> None:
        super().__init__()
        self.model, self.precision = model, precision

    def forward(self, images: Images, labels: Tensor, generator: Generators) -> tuple[Tensor, Tensor]:
        """The mean loss of a batch and the share of draws that were right, both on the device."""
        with autocast(images.device, self.precision):
            logits = self.model(images, generator).float()
        loss = F.cross_entropy(logits, labels)
        return loss, (logits.detach().argmax(dim=1) == labels).to(torch.float32).mean()
