"""What counts as an image: float, finite, in [0, 1], channels first."""

import torch
from torch import Tensor

from ars.smoothing.mechanism import Images


def as_batch(x: object) -> Images:
    """Check one image [c, h, w] or a batch [b, c, h, w] and return the batch."""
    if not isinstance(x, Tensor):
        raise TypeError(f"images must be a torch tensor, got {type(x).__name__}; use torch.from_numpy or torch.stack")
    if x.ndim not in (3, 4):
        raise ValueError(f"expected an image [c, h, w] or a batch [b, c, h, w], got shape {list(x.shape)}")
    if not x.is_floating_point():
        raise ValueError(f"images must be floating point in [0, 1], got {x.dtype}; divide 8-bit images by 255")
    if x.numel() == 0:
        raise ValueError(f"the images are empty: shape {list(x.shape)}")
    x = x.detach()  # nothing is differentiated, and numbers are read from it
    low, high = (float(bound) for bound in torch.aminmax(x))
    if not (low >= 0 and high <= 1):  # NaN fails both
        raise ValueError(
            f"images must lie in [0, 1] before any normalisation, got values from {low:g} to {high:g}; "
            "normalise inside the classifier (ars.models.Normalize)"
        )
    return x.float() if x.ndim == 4 else x.float().unsqueeze(0)
