"""Crops of photographs with Pillow: a box in the coordinates of the source is cropped and resized in one pass.

Resizing only the box gives the same pixels as resizing the whole picture first, with less work.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64
from PIL import Image
from torch import Tensor

from ars.data.image_files import Channels, as_mode, as_tensor, open_upright, read_file

Box = tuple[float | int, float | int, float | int, float | int]
"""Left, upper, right, lower edge."""
Size = tuple[int, int]
"""Height, width."""
ATTEMPTS = 10
DRAWS = 4 * ATTEMPTS
RATIOS = (3 / 4, 4 / 3)


def random_resized_box(
    width: int, height: int, u: Float64[np.ndarray, " 40"], *, smallest: float, aspect: float = 1.0
) -> Box:
    """The box of a RandomResizedCrop: area uniform in [smallest, 1], log of the aspect ratio uniform, place uniform.

    u holds DRAWS uniform numbers. If no attempt fits, the largest centred box with an allowed ratio is used. Ratios are
    relative to aspect, the width by the height of the input.
    """
    for area_draw, ratio_draw, x_draw, y_draw in u.reshape(ATTEMPTS, 4):
        area = width * height * (smallest + (1 - smallest) * area_draw)
        ratio = aspect * math.exp(math.log(RATIOS[0]) + (math.log(RATIOS[1]) - math.log(RATIOS[0])) * ratio_draw)
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(x_draw * (width - w + 1)), int(y_draw * (height - h + 1))
            return left, top, left + w, top + h
    w = min(width, round(height * aspect * RATIOS[1]))
    h = min(height, round(width / (aspect * RATIOS[0])))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def resized(width: int, height: int, short: int) -> tuple[int, int]:
    """The size of a picture after resizing its short side to short.

    >>> resized(178, 218, 240)
    (240, 293)
    """
    if width <= height:
        return short, int(short * height / width)
    return int(short * width / height), short


def box_after_resizing(width: int, height: int, *, short: int, left: int, top: int, side: int) -> Box:
    """The box in the source of a side x side crop at (left, top) after resizing the short side to short."""
    new_width, new_height = resized(width, height, short)
    across, down = width / new_width, height / new_height
    return left * across, top * down, (left + side) * across, (top + side) * down


def centre_box(width: int, height: int, *, short: int, side: int) -> Box:
    """The box of a centre crop after resizing the short side to short (ImageNet: 256, 224)."""
    new_width, new_height = resized(width, height, short)
    left, top = round((new_width - side) / 2), round((new_height - side) / 2)
    return box_after_resizing(width, height, short=short, left=left, top=top, side=side)


def covered_box(width: int, height: int, *, size: Size) -> Box:
    """The largest centred box of the proportions of size (height, width); of a square as centre_box has it.

    >>> covered_box(100, 60, size=(30, 50)), covered_box(100, 60, size=(30, 30))
    ((0.0, 0.0, 100.0, 60.0), (20.0, 0.0, 80.0, 60.0))
    """
    if size[0] == size[1]:
        return centre_box(width, height, short=size[0], side=size[0])
    scale = min(height / size[0], width / size[1])
    across, down = scale * size[1], scale * size[0]
    return (width - across) / 2, (height - down) / 2, (width + across) / 2, (height + down) / 2


def read_fitted(path: Path, size: Size, channels: Channels = 3) -> tuple[Float[Tensor, "c h w"], str]:
    """An image file in [0, 1], fitted like the test images of a folder benchmark of that size, and what was done to it.

    The latter is empty (nothing), "resized" or "resized and cropped".
    """
    picture = open_upright(read_file(path), str(path))
    box, (width, height) = covered_box(*picture.size, size=size), picture.size
    square = size[0] == size[1]
    cropped = resized(width, height, size[0]) != (size[1], size[0]) if square else box[0] > 0.5 or box[1] > 0.5
    done = "" if (height, width) == size else "resized and cropped" if cropped else "resized"
    return as_tensor(cut(picture, box, size, str(path), channels=channels)), done


def holding_offset(length: int, side: int, points: Sequence[float], margin: int, u: float) -> int:
    """A start of a window of this side on an axis such that all points lie margin inside; u in [0, 1) selects it.

    If points are too close to the end of the axis, or too far apart, it is the window that comes closest.
    """
    lowest, highest = math.ceil(max(points) + margin - side), math.floor(min(points) - margin)
    if lowest > highest:  # the points do not fit: centre the window on them
        lowest = highest = round((min(points) + max(points) - side) / 2)
    lowest, highest = (min(max(0, bound), length - side) for bound in (lowest, highest))
    return lowest + int(u * (highest - lowest + 1))


def cut(
    picture: Image.Image, box: Box, size: int | Size, name: str, *, fast: bool = False, channels: Channels = 3
) -> Image.Image:
    """The box as an RGB picture of this side or size (height, width), antialiased bilinear; or as a grey one.

    fast lets the JPEG decoder halve large pictures while the box keeps at least that many pixels. The pixels differ
    from those of a full decoding, so it is for training only.
    """
    new_height, new_width = (size, size) if isinstance(size, int) else size
    width, height = picture.size
    left, top, right, lower = box
    if fast and picture.format == "JPEG":
        wanted = math.ceil(width * new_width / (right - left)), math.ceil(height * new_height / (lower - top))
        picture.draft(picture.mode, wanted)
    across, down = picture.size[0] / width, picture.size[1] / height
    scaled = left * across, top * down, right * across, lower * down
    shown = as_mode(picture, name, channels)
    return shown.resize((new_width, new_height), Image.Resampling.BILINEAR, box=scaled)
