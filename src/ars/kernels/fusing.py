"""Which networks have kernels."""

from importlib.util import find_spec

import torch
from torch import nn

from ars.kernels.bottleneck import FusedResNet50
from ars.kernels.resnet import FusedResNet
from ars.kernels.unet import FusedUNet, can_fuse
from ars.models import CifarResNet, ResNet50, UNet
from ars.smoothing.mechanism import Images


def fused(network: nn.Module, images: Images) -> nn.Module | None:
    """The network of pixels [b, h, w, 4] in bf16 for images of this size, or None where there are no kernels."""
    _, channels, height, width = images.shape
    if images.device.type != "cuda" or not find_spec("triton") or height % 4 or width % 4 or channels > 4:
        return None
    if type(network) is CifarResNet:
        return FusedResNet(network, torch.bfloat16)
    if type(network) is ResNet50:
        return FusedResNet50(network, torch.bfloat16)
    if type(network) is UNet and can_fuse(network):
        return FusedUNet(network, torch.bfloat16)
    return None
