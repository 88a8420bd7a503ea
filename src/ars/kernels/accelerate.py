"""The fastest known form of each network: fused kernels, or bf16 with BatchNorm folded, channels last.

A table lists the network classes with fused kernels. The faster network is a copy, and certification compares its
logits with the plain network's before using it. Everything here comes after the noise and never changes it.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import nn

from ars.kernels.backend import can_compile
from ars.kernels.compiled import Half
from ars.kernels.pixels import Finish, FromImages
from ars.models import CifarResNet, Normalize, ResNet50, UNet
from ars.smoothing import SmoothedClassifier, last, minimum_variance
from ars.smoothing.mechanism import Images

NATIVE_BF16 = (8, 0)  # the lowest compute capability of a GPU with native bf16
COUNTED = 2**31  # limit on the elements of a map: the kernels count in 32 bits

# Compiling ResNet-50 takes 6 s and then halves its time: it pays off once about 6 s have been spent without it.
COMPILE_AFTER = 8 * 10**9  # pixels drawn


@dataclass(frozen=True)
class Fused:
    """The fused form of a network class: where it is defined, and its largest map's elements per pixel of the image."""

    form: str
    widest: Callable[[Any], int]
    fits: Callable[[Any], bool] = lambda network: True

    def make(self, network: nn.Module) -> nn.Module:
        """The fused network in bf16; imports the kernels."""
        module, _, name = self.form.partition(":")
        fused: nn.Module = getattr(import_module(module), name)(network, torch.bfloat16)
        return fused


FUSED = {
    CifarResNet: Fused("ars.kernels.fused_resnet:FusedResNet", lambda network: network.conv1.out_channels),
    # 64 channels on half the height and width
    ResNet50: Fused("ars.kernels.fused_resnet50:FusedResNet50", lambda network: 16),
    UNet: Fused(
        "ars.kernels.fused_unet:FusedUNet",
        lambda network: network.to_mask.in_channels,
        # the widths for which there are tiles
        fits=lambda network: network.to_mask.in_channels in (16, 32) and network.encoders[0][0].in_channels <= 4,
    ),
}

# layers that compute the same in bf16 as under autocast: a sequence of them can run in bf16
PLAIN_LAYERS = (
    nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.LeakyReLU, nn.Linear, nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d,
    nn.AdaptiveAvgPool2d, nn.AvgPool2d, nn.MaxPool2d, nn.Sequential,
)  # fmt: skip


def accelerate(model: SmoothedClassifier, images: Images, *, least: int) -> SmoothedClassifier | None:
    """A copy of the model in which known networks are replaced by faster ones; None if it has no known networks.

    The model itself does not change, and everything else is shared. Kernels must take at least this many images.
    """
    faster = copy(model)
    faster._modules = _faster_parts(model, images, least)
    if faster._modules == model._modules:
        return None
    finish = _finish(faster)
    if finish is not None:
        faster.combine, faster.classifier = finish
    return faster


def compile_for(model: SmoothedClassifier, batch: int) -> None:
    """Compile the networks without fused kernels for batches of this size."""
    for part in model.modules():
        if isinstance(part, Half):
            part.compile_for(batch)


def has_kernels(network: nn.Module) -> bool:
    """Whether a network has fused kernels: its class is in the table, and its size is supported."""
    return type(network) in FUSED and FUSED[type(network)].fits(network)


def fuse(network: nn.Module, images: Images, *, least: int) -> nn.Module | None:
    """The fused network on pixels [b, h, w, 4] in bf16 for images of this size; None if there are no kernels."""
    _, channels, height, width = images.shape
    if images.device.type != "cuda" or not can_compile() or height % 4 or width % 4 or channels > 4:
        return None
    if torch.cuda.get_device_capability(images.device) < NATIVE_BF16 or not has_kernels(network):
        return None
    fused = FUSED[type(network)]
    return None if least * height * width * fused.widest(network) >= COUNTED else fused.make(network)


def _faster_parts(owner: nn.Module, images: Images, least: int) -> dict[str, nn.Module | None]:
    """The children of a module by name, with the largest known networks in them replaced by faster ones."""
    parts = dict(owner._modules)
    for name, child in owner._modules.items():
        if child is None or isinstance(child, nn.DataParallel):  # its replicas would share scratch memory
            continue
        if _knows(child):
            kernels = fuse(child, images, least=least)
            parts[name] = Half(child) if kernels is None else FromImages(kernels, torch.bfloat16)
        elif (inner := _faster_parts(child, images, least)) != child._modules:
            twin = parts[name] = copy(child)
            twin._modules = inner
    return parts


def _knows(network: nn.Module) -> bool:
    """Whether a network is in the table or a sequence of plain layers, in float32."""
    plain = type(network) is nn.Sequential and all(type(part) in PLAIN_LAYERS for part in network.modules())
    tensors = [*network.parameters(), *network.buffers()]
    return (plain or type(network) in FUSED) and all(part.dtype in (torch.float32, torch.int64) for part in tensors)


def _finish(model: SmoothedClassifier) -> tuple[Finish, nn.Module] | None:
    """combine and normalisation as one kernel, and the classifier without them, if the network has kernels."""
    parts = list(model.classifier.children()) if type(model.classifier) is nn.Sequential else []
    if model.combine not in (last, minimum_variance) or [type(part) for part in parts] != [Normalize, FromImages]:
        return None
    normalize, network = parts
    assert isinstance(normalize, Normalize)
    assert isinstance(network, FromImages)
    return Finish(model.combine, normalize, network.dtype), network.network
