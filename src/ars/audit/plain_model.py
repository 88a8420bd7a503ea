"""A smoothed classifier as a plain model(x), for attack libraries such as Foolbox, torchattacks and AutoAttack."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ars.kernels.fold import fold
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images
from ars.theory.rounding import as_whole


class PlainModel(nn.Module):
    """Images [b, c, h, w] in [0, 1] to ln of the mean softmax [b, classes] over draws with fresh noise in every call.

    It is differentiable in the images, and computes through a copy in eval mode: the smoothed classifier is neither
    changed nor followed. What an attack on it reports is no verdict: its draws are those that the attack has seen.
    """

    def __init__(self, smoothed: SmoothedClassifier, *, draws: int = 64, seed: int = 1) -> None:
        super().__init__()
        if smoothed.mechanism.exact:
            raise ValueError("rounded noise has no gradient; wrap the same model without exact mode")
        self.smoothed = fold(smoothed).requires_grad_(False)
        self.draws, self.seed = as_whole("draws", draws, least=1), as_whole("seed", seed, least=0)
        self._generators: dict[torch.device, torch.Generator] = {}
        self.eval()

    def forward(self, images: Images) -> Float[Tensor, "b classes"]:
        """The logarithms of the mean probabilities; their largest is not always the class with the most votes."""
        if images.device not in self._generators:
            self._generators[images.device] = torch.Generator(images.device).manual_seed(self.seed)
        logits = self.smoothed(images.repeat_interleave(self.draws, dim=0), self._generators[images.device])
        return mean_log_probabilities(logits, self.draws)


def mean_log_probabilities(logits: Float[Tensor, "bn classes"], draws: int) -> Float[Tensor, "b classes"]:
    """ln of the mean softmax over consecutive draws of each image."""
    mean: Tensor = logits.float().log_softmax(dim=1).view(-1, draws, logits.shape[1]).logsumexp(dim=1) - math.log(draws)
    return mean
