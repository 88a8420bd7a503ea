"""The exponential moving average of the weights."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ars.smoothing import Composition, SmoothedClassifier


class MovingAverage:
    """decay times the average plus 1 - decay times the weights, after every step; also for BatchNorm's statistics.

    Only the trained parts are averaged; other tensors of the model, such as reference images, are not copied.
    """

    def __init__(self, model: SmoothedClassifier, decay: float) -> None:
        self.source = nn.ModuleList([model.mechanism, model.classifier])
        # without a device its counter, which is read at every step, stays on the host
        average: Any = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self.average = AveragedModel(self.source, multi_avg_fn=average, use_buffers=True)
        mechanism, classifier = cast(nn.ModuleList, self.average.module)
        self.model = SmoothedClassifier(cast(Composition, mechanism), model.combine, classifier)

    def update(self) -> None:
        """Include the weights after a step."""
        self.average.update_parameters(self.source)

    @torch.no_grad()
    def hand_over(self) -> None:
        """Replace the model's weights by their average."""
        self.source.load_state_dict(self.average.module.state_dict())

    def tensors(self) -> dict[str, Tensor]:
        """The state, for a checkpoint."""
        return self.average.state_dict()

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state of a checkpoint."""
        self.average.load_state_dict(dict(tensors))
