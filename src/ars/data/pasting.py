"""Pasting small images along the border of larger ones, a whole batch at a time on the device that holds them."""

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor
from torch.nn.functional import pad


def border_slots(span: int) -> Int[Tensor, "n 2"]:
    """Every (row, column) from 0 to span at which a pasted image touches the border of the larger one.

    >>> len(border_slots(16))
    64
    """
    rows, columns = torch.meshgrid(torch.arange(span + 1), torch.arange(span + 1), indexing="ij")
    edge = (rows % span == 0) | (columns % span == 0) if span else torch.ones_like(rows, dtype=torch.bool)
    return torch.stack([rows[edge], columns[edge]], dim=1)


def paste(
    images: UInt8[Tensor, "b c s s"], onto: UInt8[Tensor, "b c k k"], slots: Int[Tensor, "b 2"]
) -> UInt8[Tensor, "b c k k"]:
    """Each image with its upper left corner at its slot (row, column) of a copy of what it is pasted onto."""
    batch, channels, side, _ = images.shape
    canvas = onto.shape[-1]
    device = images.device
    top, left = slots.unbind(1)
    within = torch.arange(side, device=device)
    places = (torch.arange(channels, device=device)[:, None, None] * canvas + within[:, None]) * canvas + within
    places = (top * canvas + left)[:, None] + places.flatten()
    return onto.flatten(1).scatter(1, places, images.flatten(1)).view(batch, channels, canvas, canvas)


def crop_padded(
    images: UInt8[Tensor, "b c s s"], padding: int, top: Int[Tensor, " b"], left: Int[Tensor, " b"]
) -> UInt8[Tensor, "b c s s"]:
    """Each image with a black border of so many pixels, cut to its own size again at (top, left) in 0 to 2 padding."""
    batch, channels, side, _ = images.shape
    within = torch.arange(side, device=images.device)
    rows, columns = (top[:, None] + within)[:, None, :, None], (left[:, None] + within)[:, None, None, :]
    of = torch.arange(batch, device=images.device)[:, None, None, None]
    return pad(images, [padding] * 4)[of, torch.arange(channels, device=images.device)[:, None, None], rows, columns]


def mirror(images: UInt8[Tensor, "b c h w"], chosen: Bool[Tensor, " b"]) -> UInt8[Tensor, "b c h w"]:
    """Each chosen image flipped left to right, the others as they are."""
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def to_unit(images: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bytes as float32 in [0, 1]; a product, because CUDA and the CPU round a division by 255 differently.

    >>> to_unit(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
    [0.0, 1.0]
    """
    return images.to(torch.float32).mul_(1 / 255)
