"""Networks to smooth and mask with; in eval mode an image's output depends on nothing but that image.

A certificate needs that: no dropout, no other draw and no batch statistics may take part in a vote. Any other
``nn.Module`` of which it is true will do as well.
"""

from ars.models.normalize import Normalize
from ars.models.resnet import CifarResNet, ResNet50, cifar_resnet, resnet50
from ars.models.small import small_cnn
from ars.models.static_mask import StaticMask
from ars.models.unet import UNet

__all__ = ["CifarResNet", "Normalize", "ResNet50", "StaticMask", "UNet", "cifar_resnet", "resnet50", "small_cnn"]
