"""What certify and predict take as images: tensors and NumPy arrays, checked and brought to one form."""

import numpy as np
import torch
from torch import Tensor

from ars.smoothing.mechanism import Images

CHANNELS = (1, 3)
"""Numbers of channels by which the layout of an array is recognised."""


def as_batch(x: object) -> Images:
    """Check one image or a batch of them, in [0, 1], and return the batch [b, c, h, w] in float32.

    Tensors are [c, h, w] or [b, c, h, w] and floating point. Arrays may also be bytes, grey [h, w], or have their
    channels last, as Pillow and OpenCV make them.
    """
    if isinstance(x, np.ndarray):
        x = _from_array(x)
    if not isinstance(x, Tensor):
        raise TypeError(
            f"images must be a torch tensor or a NumPy array, got {type(x).__name__}; use numpy.asarray or torch.stack"
        )
    if x.ndim not in (3, 4):
        raise ValueError(f"expected an image [c, h, w] or a batch [b, c, h, w], got shape {list(x.shape)}")
    if not x.is_floating_point():
        raise ValueError(f"images must be floating point in [0, 1], got {x.dtype}; divide 8-bit images by 255")
    if x.numel() == 0:
        raise ValueError(f"the images are empty: shape {list(x.shape)}")
    x = x.detach()  # no gradients are needed, and its values are read below
    low, high = (float(bound) for bound in torch.aminmax(x))
    if not (low >= 0 and high <= 1):  # NaN fails both
        raise ValueError(
            f"images must lie in [0, 1] before any normalisation, got values from {low:g} to {high:g}; "
            "normalise inside the classifier (ars.models.Normalize)"
        )
    return x.float() if x.ndim == 4 else x.float().unsqueeze(0)


def _from_array(x: np.ndarray) -> Tensor:
    """The array as a tensor with its channels first; bytes become floats in [0, 1]."""
    if x.ndim == 2:
        x = x[None]
    elif x.ndim in (3, 4):
        first, last = x.shape[-3] in CHANNELS, x.shape[-1] in CHANNELS
        if first == last:
            raise ValueError(
                f"which axis of an array of shape {list(x.shape)} holds the channels is not clear; give a tensor "
                "[c, h, w] or [b, c, h, w]"
            )
        x = np.moveaxis(x, -1, -3) if last else x
    tensor = torch.tensor(np.ascontiguousarray(x))  # a copy, since the array may be read-only
    # a product, as in the benchmarks: CUDA and the CPU round a division differently
    return tensor.float() * (1 / 255) if tensor.dtype == torch.uint8 else tensor
