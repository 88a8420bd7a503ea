"""A moving average of the weights, which often certifies better than the weights of the last step."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ars.smoothing import Composition, SmoothedClassifier


class MovingAverage:
    """decay times the average so far plus 1 - decay times the weights, after every step; BatchNorm's statistics too.

    Only what the optimisers train is averaged: what else a model holds (reference images, say) is not copied.
    """

    def __init__(self, model: SmoothedClassifier, decay: float) -> None:
        self.source = nn.ModuleList([model.mechanism, model.classifier])
        # without a device its counter stays on the host, where it is read at every step
        average: Any = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self.average = AveragedModel(self.source, multi_avg_fn=average, use_buffers=True)
        mechanism, classifier = cast(nn.ModuleList, self.average.module)
        self.model = SmoothedClassifier(cast(Composition, mechanism), model.combine, classifier)

    def update(self) -> None:
        """Take the weights of a step in."""
        self.average.update_parameters(self.source)

    @torch.no_grad()
    def hand_over(self) -> None:
        """Replace the model's weights by their average."""
        self.source.load_state_dict(self.average.module.state_dict())

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""
        return self.average.state_dict()

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put a checkpoint's state back."""
        self.average.load_state_dict(dict(tensors))
