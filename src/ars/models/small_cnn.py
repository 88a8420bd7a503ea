"""A small convolutional network for the digits."""

from itertools import pairwise

from torch import nn


def small_cnn(classes: int, width: int = 32, in_channels: int = 3) -> nn.Sequential:
    """Normalised images [b, in_channels, h, w] of any size to logits [b, classes]: 6 convolutions and a global average.

    Designed for an 8x8 object anywhere in a 24x24 image under heavy noise: each of the last 6x6 features sees 23x23
    pixels. An average pool suits it better than a max pool: the ReLU already suppresses clutter, averaging reduces
    noise where a maximum would select it, and every position gets a gradient.
    """
    if classes < 2 or width < 1:
        raise ValueError(f"need classes >= 2 and width >= 1, got classes={classes}, width={width}")
    channels = [in_channels, width, width, 2 * width, 2 * width, 4 * width, 4 * width]
    strides = [1, 1, 2, 1, 2, 1]
    layers: list[nn.Module] = []
    for (before, after), stride in zip(pairwise(channels), strides, strict=True):
        layers += [
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], classes))
