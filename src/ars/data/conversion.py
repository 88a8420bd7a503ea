"""What reading an image file does to its values: small changes of a file may be larger ones of its image."""

import io
from pathlib import Path

from PIL import Image

from ars.data.depth import of_16_bits
from ars.data.images import UNREADABLE, read_file, unreadable

EXACT = ("1", "L", "P", "RGB")
"""Modes whose colours are read as they are stored."""


def conversion(path: Path) -> str:
    """How the values of a file were changed to 8-bit RGB, as a participle; empty where they were not."""
    try:
        picture = Image.open(io.BytesIO(read_file(path)))
        if of_16_bits(picture):
            return "read with 8 bits a channel"
        if picture.has_transparency_data:
            opaque = picture.convert("RGBA").getchannel("A").getextrema() == (255, 255)
            return "" if opaque else "laid on white"
        return "" if picture.mode in EXACT else f"converted from {picture.mode}"
    except UNREADABLE as error:
        raise unreadable(str(path), error) from error
