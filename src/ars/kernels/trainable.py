"""Fused kernels with gradients, for training."""

import copy
import re

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.backend import can_compile
from ars.kernels.fused_unet import SLOPE
from ars.models import CifarResNet, UNet
from ars.models.resnet import BasicBlock
from ars.smoothing import SmoothedClassifier
from ars.smoothing.mechanism import Images

RGB = 8  # channels of an image, padded with zeros: cuDNN's kernels for 3 channels are slow
COUNTED = 2**31 - 2**16  # limit on the elements of a map: the kernels count in 32 bits, slightly beyond its end


def with_kernels(model: SmoothedClassifier, dtype: torch.dtype = torch.bfloat16) -> SmoothedClassifier:
    """A model that shares every parameter and buffer, in which known networks are replaced by kernels."""
    if not can_compile():
        return model
    twin = _twin(model, dtype)
    assert isinstance(twin, SmoothedClassifier)
    return twin


def _twin(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    if type(module) is CifarResNet and _as_built(module):
        return TrainedResNet(module, dtype)
    if type(module) is UNet and _as_built(module) and can_train(module):
        return TrainedUNet(module, dtype)
    twin = copy.copy(module)
    twin._modules = {name: child and _twin(child, dtype) for name, child in module._modules.items()}
    return twin


def can_train(network: UNet) -> bool:
    """Whether the kernels support this width: a power of two."""
    width = network.to_mask.in_channels
    return width >= 8 and width & (width - 1) == 0


def _as_built(network: CifarResNet | UNet) -> bool:
    """Whether all layers are those that the class builds, which the kernels take for granted.

    The linear layer may be another, since it is called as it is, and so may the share of channels that are dropped.
    """
    try:
        with torch.device("meta"):
            if isinstance(network, CifarResNet):
                fresh: nn.Module = CifarResNet(len(network.layer1), 2)
            else:
                fresh = UNet(network.to_mask.in_channels, network.encoders[0][0].in_channels)  # type: ignore[index]
    except (AttributeError, TypeError, IndexError):  # another part stands there
        return False
    return _layers(network) == _layers(fresh)


def _layers(network: nn.Module) -> list[tuple[str, str]]:
    return [(name, re.sub(r"p=[^,)]*", "", repr(part))) for name, part in network.named_children() if name != "fc"]


class TrainedResNet(nn.Module):
    """A CIFAR ResNet with kernels; in eval mode it calls the network itself."""

    def __init__(self, network: CifarResNet, dtype: torch.dtype) -> None:
        super().__init__()
        self.network, self.dtype = network, dtype

    def forward(self, x: Images) -> Float[Tensor, "b classes"]:
        """The logits."""
        if not self.network.training or not _fits(x, channels=self.network.conv1.out_channels):
            logits: Tensor = self.network(x)
            return logits
        from ars.kernels.triton.differentiable import convolution_and_norm, nhwc

        net = self.network
        with torch.autocast(x.device.type, enabled=False):
            h = nhwc(F.pad(x, (0, 0, 0, 0, 0, RGB - x.shape[1])).to(self.dtype))
            h = convolution_and_norm(h, net.conv1.weight, net.bn1, slope=0.0, padding=1)
            for block in (*net.layer1, *net.layer2, *net.layer3):
                assert isinstance(block, BasicBlock)
                h = self._block(h, block)
            logits = net.fc(h.float().mean(dim=(1, 2)))
        return logits

    def _block(self, x: Tensor, block: BasicBlock) -> Tensor:
        from ars.kernels.triton.differentiable import convolution_and_norm

        shortcut = x
        if isinstance(block.downsample, nn.Sequential):
            conv, norm = block.downsample
            assert isinstance(conv, nn.Conv2d)
            assert isinstance(norm, nn.BatchNorm2d)
            shortcut = convolution_and_norm(x, conv.weight, norm, slope=1.0, stride=conv.stride[0])
        stride = block.conv1.stride[0]
        h = convolution_and_norm(x, block.conv1.weight, block.bn1, slope=0.0, stride=stride, padding=1)
        return convolution_and_norm(h, block.conv2.weight, block.bn2, slope=0.0, padding=1, residual=shortcut)


class TrainedUNet(nn.Module):
    """The mask network with kernels; in eval mode it calls the network itself."""

    def __init__(self, network: UNet, dtype: torch.dtype) -> None:
        super().__init__()
        self.network, self.dtype = network, dtype

    def forward(self, x: Images) -> Float[Tensor, "b 1 h w"]:
        """One weight per pixel, in float32."""
        net = self.network
        # in a deepest map of 3 pixels both borders are reflections of the same pixel; one of 1 pixel has no reflection
        if not net.training or {8, 24} & {*x.shape[-2:]} or not _fits(x, channels=2 * net.to_mask.in_channels):
            weights: Tensor = net(x)
            return weights
        from ars.kernels.triton.differentiable import joined, nhwc

        with torch.autocast(x.device.type, enabled=False):
            bordered = F.pad(F.pad(x, (1, 1, 1, 1), mode="reflect"), (0, 0, 0, 0, 0, RGB - x.shape[1]))
            h, skips = nhwc(bordered.to(self.dtype)), []
            for encode, shrink in zip(net.encoders, net.downs, strict=True):
                skips.append(_double(h, encode, border=True))
                h = _layer(skips[-1], shrink[0], shrink[1], border=True)  # type: ignore[index]
            h = _double(h, net.bottom, border=False)
            for halve, decode, skip in reversed(list(zip(net.halvings, net.decoders, skips, strict=True))):
                h = _double(joined(_pointwise(h, halve), skip), decode, border=False)
            return torch.sigmoid(_pointwise(h, net.to_mask).float()).permute(0, 3, 1, 2)


def _fits(x: Images, *, channels: int) -> bool:
    """Whether the kernels can take these images; channels is that of the largest map, which may have a border."""
    images, colours, height, width = x.shape
    largest = images * (height + 2) * (width + 2) * max(channels, RGB)
    return height % 8 == 0 and width % 8 == 0 and colours <= RGB and largest < COUNTED


def _double(x: Tensor, layers: nn.Module, *, border: bool) -> Tensor:
    """Two of [convolution, norm, dropout, activation] on a map with a border."""
    assert isinstance(layers, nn.Sequential)
    first, norm, drop, _, *rest = layers
    x = _layer(x, first, norm, drop=drop, border=True)
    return _layer(x, rest[0], rest[1], drop=rest[2], border=border)


def _layer(x: Tensor, conv: nn.Module, norm: nn.Module, *, drop: nn.Module | None = None, border: bool) -> Tensor:
    from ars.kernels.triton.differentiable import convolution_and_norm

    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    keep = None
    if isinstance(drop, nn.Dropout2d) and drop.p:
        keep = F.dropout(torch.ones(len(x), conv.out_channels, device=x.device), drop.p)
    stride = conv.stride[0]
    return convolution_and_norm(x, conv.weight, norm, slope=SLOPE, stride=stride, keep=keep, border=border)


def _pointwise(x: Tensor, conv: nn.Module) -> Tensor:
    """A 1x1 convolution."""
    assert isinstance(conv, nn.Conv2d)
    assert conv.bias is not None
    return F.linear(x, conv.weight.flatten(1).to(x.dtype), conv.bias.to(x.dtype))
