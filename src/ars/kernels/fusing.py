"""Which networks have kernels."""

import torch
from torch import nn

from ars.kernels.bottleneck import FusedResNet50
from ars.kernels.compiler import can_compile
from ars.kernels.resnet import FusedResNet
from ars.kernels.unet import FusedUNet, can_fuse
from ars.models import CifarResNet, ResNet50, UNet
from ars.smoothing.mechanism import Images

NATIVE_BF16 = (8, 0)  # the least compute capability of a GPU that has it
COUNTED = 2**31  # elements of a map: the kernels count in 32 bits


def fused(network: nn.Module, images: Images, *, least: int) -> nn.Module | None:
    """The network of pixels [b, h, w, 4] in bf16 for images of this size, or None where there are no kernels.

    They must be able to take at least so many images at once.
    """
    _, channels, height, width = images.shape
    if images.device.type != "cuda" or not can_compile() or height % 4 or width % 4 or channels > 4:
        return None
    if torch.cuda.get_device_capability(images.device) < NATIVE_BF16:
        return None
    if least * height * width * widest(network) >= COUNTED:
        return None
    if type(network) is CifarResNet:
        return FusedResNet(network, torch.bfloat16)
    if type(network) is ResNet50:
        return FusedResNet50(network, torch.bfloat16)
    if type(network) is UNet and can_fuse(network):
        return FusedUNet(network, torch.bfloat16)
    return None


def widest(network: nn.Module) -> int:
    """Elements of the largest map of a network that may have kernels, for each pixel of an image.

    A ResNet-50 has 64 channels on half the height and width.
    """
    if type(network) is CifarResNet:
        return network.conv1.out_channels
    return network.to_mask.in_channels if type(network) is UNet else 16
