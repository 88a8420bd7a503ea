"""Networks for classifiers and masks; in eval mode, the output for an image depends only on that image.

Certificates require this: dropout, other draws and batch statistics must not influence a vote. Any other ``nn.Module``
with this property works as well.
"""

from ars.models.normalize import Normalize
from ars.models.resnet import CifarResNet, ResNet50, cifar_resnet, resnet50
from ars.models.small_cnn import small_cnn
from ars.models.static_mask import StaticMask
from ars.models.unet import UNet

__all__ = ["CifarResNet", "Normalize", "ResNet50", "StaticMask", "UNet", "cifar_resnet", "resnet50", "small_cnn"]
