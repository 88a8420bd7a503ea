"""Image files: reading, bit depth, conversion, writing and contact sheets."""

import io
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw, ImageFile, ImageOps
from torch import Tensor

from ars.atomic import whole
from ars.data.settings import DataError

Channels = Literal[1, 3]
SIXTEEN_BITS = ("PNG", "PPM")  # formats whose mode I has at most 16 bits; some versions of Pillow open greys as I
WHITE_IS_ZERO = 0, 0x0106  # the value and the TIFF tag
SAVE = "save it with 8 bits per channel"
TOO_DARK = (
    "has 16 bits per channel but no value above a quarter of the range, so it may have 8, 12 or 14 bits and would be "
    f"too dark; {SAVE}, or scale it to 16 bits"
)


def doubt(picture: ImageFile.ImageFile) -> str:
    """What is wrong with the values of an opened picture, and what to do; empty if their range is known.

    Pictures with 8 bits per channel are not decoded for this.
    """
    value, tag = WHITE_IS_ZERO
    if picture.mode == "F":
        return f"holds floating-point numbers of unknown range; {SAVE}"
    if picture.mode == "I" and picture.format not in SIXTEEN_BITS:
        return f"holds 32-bit or signed integers of unknown range; {SAVE}"
    if picture.mode.startswith("I"):
        if getattr(picture, "tag_v2", {}).get(tag) == value:
            return f"has inverted 16-bit greys, which are not supported; {SAVE}"
        too_dark = 0 < int(np.asarray(picture).max()) < 2**14
    elif of_16_bits(picture):
        # Pillow keeps the upper 8 bits, so 8-bit values are lost and look black
        colours = [band for band, name in enumerate(picture.getbands()) if name not in "Aa"]
        too_dark = int(np.atleast_3d(np.asarray(picture))[..., colours].max()) < 2**6
    else:
        return ""
    return TOO_DARK if too_dark else ""


def of_16_bits(picture: ImageFile.ImageFile) -> bool:
    """Whether an opened picture has 16 bits per channel in its file; Pillow keeps 8 bits of colours."""
    return picture.mode.startswith("I") or any(re.search(";16[BLN]", str(tile[3])) for tile in picture.tile)


ORIENTATION = 0x0112  # the EXIF tag
UNREADABLE = (
    OSError, SyntaxError, ValueError, RuntimeError, TypeError, LookupError, ArithmeticError, AttributeError, EOFError,
    struct.error, Image.DecompressionBombError,
)  # fmt: skip
"""What Pillow raises for a damaged file."""


def read_image(path: Path, channels: Channels = 3) -> Float[Tensor, "c h w"]:
    """An image file as RGB or grey in [0, 1], in its EXIF orientation."""
    return as_tensor(as_mode(open_upright(read_file(path), str(path)), str(path), channels))


def read_file(path: Path) -> bytes:
    """The bytes of an image file."""
    if path.is_fifo():
        raise DataError(f"{path} is a pipe, which can be read only once; save the image to a file and use that")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no image at {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name the image files in it, such as {path / '*.png'}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error


def as_tensor(picture: Image.Image) -> Float[Tensor, "c h w"]:
    """An RGB or grey picture in [0, 1]."""
    return to_unit(torch.from_numpy(as_bytes(picture)))


def write_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture as a whole or not at all, in the format of its suffix."""
    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind not in Image.SAVE:
        raise DataError(f"a picture must have a name such as sheet.png, got {path}; use a known suffix")
    with whole(path) as temporary:
        picture.save(temporary, format=kind)


def decode(data: bytes, name: str) -> Image.Image:
    """The bytes of an image file as an RGB picture, in its EXIF orientation."""
    return as_rgb(open_upright(data, name), name)


def open_upright(data: bytes, name: str) -> Image.Image:
    """The picture in its own mode; it is decoded only if it must be rotated or has 16 bits."""
    try:
        picture: Image.Image
        picture = opened = Image.open(io.BytesIO(data))
        doubtful = doubt(opened)
        if not doubtful and picture.getexif().get(ORIENTATION, 1) != 1:
            picture = ImageOps.exif_transpose(picture)
    except UNREADABLE as error:
        raise unreadable(name, error) from error
    if doubtful:
        raise DataError(f"{name} {doubtful}")
    return picture


def as_rgb(picture: Image.Image, name: str) -> Image.Image:
    """Decode and convert the result of open_upright: 16-bit greys keep their range, and transparency becomes white."""
    try:
        if picture.mode.startswith("I"):
            return Image.fromarray((np.asarray(picture) // 257).astype(np.uint8)).convert("RGB")
        if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
            picture = picture.convert("RGBA")
            white = Image.new("RGBA", picture.size, "white")
            return Image.alpha_composite(white, picture).convert("RGB")
        picture.load()
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    except UNREADABLE as error:
        raise unreadable(name, error) from error


def as_mode(picture: Image.Image, name: str, channels: Channels) -> Image.Image:
    """The result of open_upright as RGB, or as grey, which leaves the values of grey files as they are."""
    shown = as_rgb(picture, name)
    return shown if channels == 3 else shown.convert("L")


def unreadable(name: str, error: Exception) -> DataError:
    """The error for a file that is not an image or is damaged."""
    reason = "it is not an image of a known format" if "cannot identify" in str(error) else str(error)
    return DataError(f"{name} cannot be read as an image: {reason}; fix or remove it")


EXACT = ("1", "L", "P", "RGB")
"""Modes whose colours are used as stored."""
GREY = ("1", "L")
"""Modes whose greys are used as stored."""


def conversion(path: Path, channels: Channels = 3) -> str:
    """How the values of a file were converted to 8-bit RGB or grey, as a participle; empty if they were not."""
    try:
        picture = Image.open(io.BytesIO(read_file(path)))
        if of_16_bits(picture):
            return "read with 8 bits per channel"
        if picture.has_transparency_data:
            opaque = picture.convert("RGBA").getchannel("A").getextrema() == (255, 255)
            return "" if opaque else "put on white"
        exact = EXACT if channels == 3 else GREY
        return "" if picture.mode in exact else f"converted from {picture.mode}"
    except UNREADABLE as error:
        raise unreadable(str(path), error) from error


LINE, GAP, SMALLEST, COLUMNS = 12, 4, 96, 8


def contact_sheet(images: Float[Tensor, "n c h w"], captions: Sequence[str]) -> Image.Image:
    """Images in rows, each with its caption below; small images are enlarged pixel by pixel."""
    height, width = images.shape[2:]
    zoom = max(1, round(SMALLEST / max(height, width)))
    cell_width, cell_height = width * zoom + GAP, height * zoom + LINE + GAP
    rows = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * cell_width + GAP, rows * cell_height + GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        left, top = GAP + number % COLUMNS * cell_width, GAP + number // COLUMNS * cell_height
        pixels = (image.expand(3, -1, -1).permute(1, 2, 0).cpu().numpy() * 255).round().astype(np.uint8)
        shown = Image.fromarray(pixels).resize((width * zoom, height * zoom), Image.Resampling.NEAREST)
        sheet.paste(shown, (left, top))
        draw.text((left, top + height * zoom), caption[: max(1, width * zoom // 6)], fill="black")
    return sheet


def to_unit(images: UInt8[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Bytes as float32 in [0, 1]; a product, because CUDA and the CPU round division by 255 differently.

    >>> to_unit(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
    [0.0, 1.0]
    """
    return images.to(torch.float32).mul_(1 / 255)


def as_bytes(picture: Image.Image) -> UInt8[np.ndarray, "c h w"]:
    """The pixels of an RGB or grey picture, channels first."""
    return np.array(np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1), order="C")
