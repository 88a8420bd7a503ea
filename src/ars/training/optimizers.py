"""What updates the weights: the optimisers and the moving average, with their state for a checkpoint."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ars.smoothing import Composition, SmoothedClassifier
from ars.smoothing.split import LearnedSplit
from ars.training.settings import Optimizer, TrainSettings

Optimizers = Mapping[str, torch.optim.Optimizer]
"""By the name of what they train: classifier and mask."""


def make_optimizers(model: SmoothedClassifier, settings: TrainSettings) -> dict[str, torch.optim.Optimizer]:
    """One optimiser for the classifier and one for the mask, if there is one; frozen parameters get none."""
    parts = {"classifier": model.classifier, "mask": model.mechanism}
    optimizers: dict[str, torch.optim.Optimizer] = {}
    for name, part in parts.items():
        chosen = settings_of(settings, name)
        groups = _groups(part, chosen.weight_decay)
        if not groups:
            continue
        device = groups[0]["params"][0].device
        cuda = device.type == "cuda"
        for group in groups:  # a captured graph can use a learning rate that changes on the device
            group["lr"] = torch.tensor(chosen.lr, device=device) if cuda else chosen.lr
        if chosen.name == "adamw":
            optimizers[name] = torch.optim.AdamW(groups, fused=cuda, capturable=cuda)
        else:
            optimizers[name] = torch.optim.SGD(groups, momentum=chosen.momentum, fused=cuda)
    if not optimizers:
        raise ValueError("there is nothing to train: every parameter is frozen")
    return optimizers


def settings_of(settings: TrainSettings, name: str) -> Optimizer:
    """The settings of one of the optimisers."""
    return settings.classifier if name == "classifier" else settings.mask


def _groups(part: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """The trained parameters; a learned split has its own group without decay, which would pull it to one half."""
    splits = {id(module.logit) for module in part.modules() if isinstance(module, LearnedSplit)}
    trained = [parameter for parameter in part.parameters() if parameter.requires_grad]
    groups = [
        {"params": [tensor for tensor in trained if id(tensor) not in splits], "weight_decay": weight_decay},
        {"params": [tensor for tensor in trained if id(tensor) in splits], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def optimizer_tensors(optimizers: Optimizers) -> dict[str, Tensor]:
    """The state of the optimisers as named tensors."""
    return {
        f"{name}.{index}.{key}": value
        for name, optimizer in optimizers.items()
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def load_optimizers(optimizers: Optimizers, tensors: Mapping[str, Tensor]) -> None:
    """Restore the named tensors; the learning rates come from the recipe.

    Each gets the memory layout of its parameter, which fused optimisers require.
    """
    for name, optimizer in optimizers.items():
        state: dict[int, dict[str, Tensor]] = {}
        for full_name, tensor in tensors.items():
            owner, index, key = full_name.split(".")
            if owner == name:
                state.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        for parameter, loaded in optimizer.state.items():
            for key, value in loaded.items():
                if value.shape == parameter.shape and value.stride() != parameter.stride():
                    loaded[key] = torch.empty_like(parameter).copy_(value)


class MovingAverage:
    """decay times the average plus 1 - decay times the weights, after every step; also for BatchNorm's statistics.

    Only the trained parts are averaged; other tensors of the model, such as reference images, are not copied.
    """

    def __init__(self, model: SmoothedClassifier, decay: float) -> None:
        self.source = nn.ModuleList([model.mechanism, model.classifier])
        # without a device its counter, which is read at every step, stays on the host
        recursion: Any = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self.averaged = AveragedModel(self.source, multi_avg_fn=recursion, use_buffers=True)
        mechanism, classifier = cast(nn.ModuleList, self.averaged.module)
        self.model = SmoothedClassifier(cast(Composition, mechanism), model.combine, classifier)

    def update(self) -> None:
        """Include the weights after a step."""
        self.averaged.update_parameters(self.source)

    @torch.no_grad()
    def hand_over(self) -> None:
        """Replace the model's weights by their average."""
        self.source.load_state_dict(self.averaged.module.state_dict())
