"""Networks that this package made and nobody changed: their type and size say all about them but the weights."""

from functools import lru_cache
from itertools import chain

import torch
from torch import nn

from ars.certification.network_state import structure
from ars.models import CifarResNet, ResNet50, UNet


def as_made(module: nn.Module) -> bool:
    """Whether a network is one of ours with the parts and settings that it was made with."""
    made_from = _made_from(module)
    return made_from is not None and _shape(module) == _new(*made_from)


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
def _new(name: str, one: int, two: int) -> object:
    """The shape of a network of ours when it is new."""
    with torch.device("meta"):
        if name == "CifarResNet":
            return _shape(CifarResNet(one, two))
        return _shape(ResNet50(one) if name == "ResNet50" else UNet(one, two))


def _shape(network: nn.Module) -> object:
    """Its parts with their settings, and which numbers they have: a bias that a layer was given is no setting."""
    tensors = chain(network.named_parameters(), network.named_buffers())
    return structure(network), [(name, tensor.shape) for name, tensor in tensors]
