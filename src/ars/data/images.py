"""Reading image files as a person would expect: the right way up, in colour, no matter how they are stored."""

import io
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from ars.certification.writing import whole
from ars.data.depth import doubt
from ars.data.errors import DataError
from ars.data.pasting import to_unit

ORIENTATION = 0x0112  # the EXIF tag
UNREADABLE = (OSError, SyntaxError, ValueError, RuntimeError, Image.DecompressionBombError)


def read_image(path: Path) -> Float[Tensor, "3 h w"]:
    """An image file as RGB in [0, 1], the right way up."""
    return as_tensor(decode(read_file(path), str(path)))


def read_file(path: Path) -> bytes:
    """The bytes of an image file."""
    if path.is_fifo():
        raise DataError(f"{path} is a pipe, which can be read but once; save the image to a file and name that")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no image at {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name the image files in it, such as {path / '*.png'}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error


def as_tensor(picture: Image.Image) -> Float[Tensor, "3 h w"]:
    """An RGB picture in [0, 1]."""
    return to_unit(torch.from_numpy(np.array(picture)).permute(2, 0, 1))


def write_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture whole or not at all, in the format that the ending of its name stands for."""
    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind not in Image.SAVE:
        raise DataError(f"a picture is written to a file such as sheet.png, got {path}; give its name that ending")
    with whole(path) as temporary:
        picture.save(temporary, format=kind)


def decode(data: bytes, name: str) -> Image.Image:
    """The bytes of an image file as an RGB picture, the right way up."""
    return as_rgb(open_upright(data, name), name)


def open_upright(data: bytes, name: str) -> Image.Image:
    """The picture in its own mode, not decoded yet unless it has to be turned or has 16 bits."""
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
    """Decode and convert what open_upright gave: 16-bit greys keep their range, what is transparent shows white."""
    try:
        if picture.mode.startswith("I"):
            return _from_16_bits(picture)
        if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
            picture = picture.convert("RGBA")
            white = Image.new("RGBA", picture.size, "white")
            return Image.alpha_composite(white, picture).convert("RGB")
        picture.load()
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    except UNREADABLE as error:
        raise unreadable(name, error) from error


def unreadable(name: str, error: Exception) -> DataError:
    """The sentence for a file that is no image, or a damaged one."""
    reason = "it is no image of a known kind" if "cannot identify" in str(error) else str(error)
    return DataError(f"{name} cannot be read as an image: {reason}; mend or remove it")


def _from_16_bits(picture: Image.Image) -> Image.Image:
    return Image.fromarray((np.asarray(picture) // 257).astype(np.uint8)).convert("RGB")
