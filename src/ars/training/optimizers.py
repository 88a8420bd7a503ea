"""One optimiser for the classifier and one for the mask, each with its own learning rate."""

import torch

from ars.smoothing import SmoothedClassifier
from ars.training.settings import Optimizer, TrainSettings


def make_optimizers(model: SmoothedClassifier, settings: TrainSettings) -> dict[str, torch.optim.Optimizer]:
    """One optimiser for the classifier, one for the mask where there is one; frozen parameters get none."""
    parts = {"classifier": model.classifier, "mask": model.mechanism}
    optimizers: dict[str, torch.optim.Optimizer] = {}
    for name, part in parts.items():
        parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
        if not parameters:
            continue
        chosen, device = settings_of(settings, name), parameters[0].device
        cuda = device.type == "cuda"
        # a learning rate on the device can change under a captured graph
        lr = torch.tensor(chosen.lr, device=device) if cuda else chosen.lr
        if chosen.name == "adamw":
            optimizers[name] = torch.optim.AdamW(
                parameters, lr=lr, weight_decay=chosen.weight_decay, fused=cuda, capturable=cuda
            )
        else:
            optimizers[name] = torch.optim.SGD(
                parameters, lr=lr, weight_decay=chosen.weight_decay, momentum=chosen.momentum, fused=cuda
            )
    if not optimizers:
        raise ValueError("there is nothing to train: every parameter is frozen")
    return optimizers


def settings_of(settings: TrainSettings, name: str) -> Optimizer:
    """The settings of one of the optimisers."""
    return settings.classifier if name == "classifier" else settings.mask
