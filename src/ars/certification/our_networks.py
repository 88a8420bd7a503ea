"""Networks that this package made and nobody changed: their type and size say all about them but the weights."""

from functools import lru_cache

import torch
from torch import nn

from ars.certification.network_state import Structure, structure
from ars.models import CifarResNet, ResNet50, UNet


def as_made(module: nn.Module) -> bool:
    """Whether a network is one of ours with the parts and settings that it was made with."""
    made_from = _made_from(module)
    return made_from is not None and structure(module) == _new(*made_from)


def _made_from(network: nn.Module) -> tuple[str, int, int] | None:
    """The name of a network of ours and what it was made from; None for any other, and where parts are missing."""
    name = type(network).__name__
    try:
        if type(network) is CifarResNet:
            return name, len(network.layer1), network.fc.out_features
        if type(network) is ResNet50:
            return name, network.fc.out_features, 0
        if type(network) is UNet:
            return name, network.to_mask.in_channels, network.encoders[0][0].in_channels  # type: ignore[index]
    except (AttributeError, TypeError, IndexError):  # somebody has put another part there
        pass
    return None


@lru_cache(maxsize=64)
def _new(name: str, one: int, two: int) -> Structure:
    """The structure of a network of ours when it is new."""
    with torch.device("meta"):
        if name == "CifarResNet":
            return structure(CifarResNet(one, two))
        return structure(ResNet50(one) if name == "ResNet50" else UNet(one, two))
