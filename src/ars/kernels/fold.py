"""BatchNorm folded into the convolution before it, in eval mode."""

from copy import deepcopy
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_eval

from ars.models.resnet import BasicBlock, Bottleneck, CifarResNet, ResNet50

# Our modules in which conv1 is followed by bn1, conv2 by bn2, ...
NUMBERED = (CifarResNet, ResNet50, BasicBlock, Bottleneck)


def fold(network: nn.Module) -> nn.Module:
    """A copy of a network in which every BatchNorm directly after a convolution is folded into it."""
    network = deepcopy(network).eval()
    for module in network.modules():
        for conv_name, norm_name in _pairs(module):
            conv, norm = getattr(module, conv_name), getattr(module, norm_name)
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                setattr(module, norm_name, nn.Identity())
    return network


@torch.no_grad()
def weights(conv: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution with both."""
    assert isinstance(conv, nn.Conv2d)
    assert conv.bias is not None
    return conv.weight.detach(), conv.bias.detach()


def _pairs(module: nn.Module) -> list[tuple[str, str]]:
    """Pairs of children in which only the second takes the output of the first."""
    if type(module) is nn.Sequential:
        return list(pairwise(module._modules))  # named_children would skip a repeated part
    if isinstance(module, NUMBERED):
        return [(f"conv{i}", f"bn{i}") for i in (1, 2, 3) if hasattr(module, f"conv{i}")]
    return []
