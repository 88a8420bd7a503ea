"""A small classifier for small images: trains on a laptop, for tests and for the embedded benchmark."""

from itertools import pairwise

from torch import nn


def small_cnn(classes: int, width: int = 32) -> nn.Sequential:
    """Normalised RGB images [b, 3, h, w] of any size to logits [b, classes]: 6 convolutions and a global average.

    Meant for an 8x8 object anywhere in a 24x24 image under heavy noise: each of the last 6x6 features sees 23x23.
    They are averaged, and not reduced to the largest: a ReLU silences the clutter already, an average evens noise out
    where a maximum seeks it, and every place gets a gradient.
    """
    if classes < 2 or width < 1:
        raise ValueError(f"need classes >= 2 and width >= 1, got classes={classes}, width={width}")
    channels = [3, width, width, 2 * width, 2 * width, 4 * width, 4 * width]
    strides = [1, 1, 2, 1, 2, 1]
    layers: list[nn.Module] = []
    for (before, after), stride in zip(pairwise(channels), strides, strict=True):
        layers += [
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], classes))
