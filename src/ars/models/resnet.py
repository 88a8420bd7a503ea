"""ResNets: the CIFAR family of depth 6n + 2, and ResNet-50 with torchvision's names so that its weights load."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

DEEPEST = 1202


def cifar_resnet(depth: int, classes: int, *, block_scale: float = 1.0, in_channels: int = 3) -> "CifarResNet":
    """A CIFAR ResNet (20, 32, ..., 110) for normalised images [b, in_channels, h, w] of any size, with random weights.

    block_scale is the initial scale of every block's last norm. With 0 the blocks start as identities, which speeds up
    the training of deep networks (Goyal et al., 2017, section 5.1).
    """
    blocks, remainder = divmod(depth - 2, 6)
    if remainder or not 8 <= depth <= DEEPEST:
        raise ValueError(f"a CIFAR ResNet has depth 6n + 2 (20, 32, 44, 56, 110), from 8 to {DEEPEST}, got {depth}")
    network = CifarResNet(blocks, check_classes(classes), in_channels)
    for block in (*network.layer1, *network.layer2, *network.layer3):
        assert isinstance(block, BasicBlock)
        nn.init.constant_(block.bn2.weight, block_scale)
    return network


def resnet50(classes: int, in_channels: int = 3) -> "ResNet50":
    """ResNet-50 v1.5 for normalised images [b, in_channels, h, w] of any size, with random weights."""
    return ResNet50(check_classes(classes), in_channels)


class CifarResNet(nn.Module):
    """3 stages of basic blocks with 16, 32, 64 channels, a global average pool, a linear layer.

    For images beyond 32x32, the paper's authors average-pool 8x8 and widen the linear layer. The global pool uses the
    whole map with one linear layer for every size, and is the same at 32x32.
    """

    def __init__(self, blocks: int, classes: int, in_channels: int = 3) -> None:
        super().__init__()
        self.conv1 = conv(in_channels, 16, 3)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(BasicBlock(16, 16) for _ in range(blocks)))
        self.layer2 = nn.Sequential(BasicBlock(16, 32, stride=2), *(BasicBlock(32, 32) for _ in range(blocks - 1)))
        self.layer3 = nn.Sequential(BasicBlock(32, 64, stride=2), *(BasicBlock(64, 64) for _ in range(blocks - 1)))
        self.fc = nn.Linear(64, classes)
        he_init(self)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes"]:
        """The logits."""
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


class ResNet50(nn.Module):
    """4 stages of 3, 4, 6, 3 bottleneck blocks; names and shapes of the parameters and buffers are torchvision's."""

    def __init__(self, classes: int, in_channels: int = 3) -> None:
        super().__init__()
        self.conv1 = conv(in_channels, 64, 7, stride=2)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = bottlenecks(64, 64, blocks=3, stride=1)
        self.layer2 = bottlenecks(256, 128, blocks=4, stride=2)
        self.layer3 = bottlenecks(512, 256, blocks=6, stride=2)
        self.layer4 = bottlenecks(1024, 512, blocks=3, stride=2)
        self.fc = nn.Linear(2048, classes)
        he_init(self)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b classes"]:
        """The logits."""
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; the first one carries the stride."""

    def __init__(self, in_channels: int, channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv(in_channels, channels, 3, stride=stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv(channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = shortcut(in_channels, channels, stride)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b channels h2 w2"]:
        """relu(residual(x) + shortcut(x))."""
        residual = F.relu(self.bn1(self.conv1(x)), inplace=True)
        residual = self.bn2(self.conv2(residual))
        return F.relu(residual + self.downsample(x), inplace=True)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions to 4 x channels and a shortcut; the 3x3 carries the stride (v1.5)."""

    def __init__(self, in_channels: int, channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv(in_channels, channels, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv(channels, channels, 3, stride=stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = conv(channels, 4 * channels, 1)
        self.bn3 = nn.BatchNorm2d(4 * channels)
        self.downsample = shortcut(in_channels, 4 * channels, stride)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b channels4 h2 w2"]:
        """relu(residual(x) + shortcut(x))."""
        residual = F.relu(self.bn1(self.conv1(x)), inplace=True)
        residual = F.relu(self.bn2(self.conv2(residual)), inplace=True)
        residual = self.bn3(self.conv3(residual))
        return F.relu(residual + self.downsample(x), inplace=True)


def bottlenecks(in_channels: int, channels: int, *, blocks: int, stride: int) -> nn.Sequential:
    """A stage: the first block changes the shape, the others keep it."""
    rest = (Bottleneck(4 * channels, channels) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(in_channels, channels, stride=stride), *rest)


def shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    """The identity, or a 1x1 convolution and a BatchNorm where the shape changes."""
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return nn.Sequential(conv(in_channels, out_channels, 1, stride=stride), nn.BatchNorm2d(out_channels))


def conv(in_channels: int, out_channels: int, kernel: int, *, stride: int = 1) -> nn.Conv2d:
    """A padded convolution without a bias, which the BatchNorm after it makes redundant."""
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)


def he_init(network: nn.Module) -> None:
    """He et al.'s weights for the convolutions: normal, variance 2 / fan-out."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def check_classes(classes: int) -> int:
    """Refuse fewer than two classes."""
    if classes < 2:
        raise ValueError(f"a classifier needs at least 2 classes, got {classes}")
    return classes
