"""One optimiser for the classifier and one for the mask, each with its own learning rate."""

from typing import Any

import torch
from torch import nn

from ars.smoothing import SmoothedClassifier
from ars.smoothing.split import LearnedSplit
from ars.training.settings import Optimizer, TrainSettings


def make_optimizers(model: SmoothedClassifier, settings: TrainSettings) -> dict[str, torch.optim.Optimizer]:
    """One optimiser for the classifier, one for the mask where there is one; frozen parameters get none."""
    parts = {"classifier": model.classifier, "mask": model.mechanism}
    optimizers: dict[str, torch.optim.Optimizer] = {}
    for name, part in parts.items():
        chosen = settings_of(settings, name)
        groups = _groups(part, chosen.weight_decay)
        if not groups:
            continue
        device = groups[0]["params"][0].device
        cuda = device.type == "cuda"
        for group in groups:  # a learning rate on the device can change under a captured graph
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
    """The trained parameters; a learned split has a group of its own, since decay would pull it towards one half."""
    splits = {id(module.logit) for module in part.modules() if isinstance(module, LearnedSplit)}
    trained = [parameter for parameter in part.parameters() if parameter.requires_grad]
    groups = [
        {"params": [it for it in trained if id(it) not in splits], "weight_decay": weight_decay},
        {"params": [it for it in trained if id(it) in splits], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
