"""Pictures whose values have no known range are doubted, since they would be read as others, mostly almost black."""

import re

import numpy as np
from PIL import ImageFile

SIXTEEN_BITS = ("PNG", "PPM")  # of which mode I holds no more, in versions of Pillow that open their greys so
WHITE_IS_ZERO = 0, 0x0106  # the value and the TIFF tag
SAVE = "save it with 8 bits a channel"


def doubt(picture: ImageFile.ImageFile) -> str:
    """What is wrong with the values of a picture as it was opened, and what to do; empty where their range is known.

    What has 8 bits a channel is not decoded for it.
    """
    value, tag = WHITE_IS_ZERO
    if picture.mode == "F":
        return f"holds floating-point numbers of unknown range; {SAVE}"
    if picture.mode == "I" and picture.format not in SIXTEEN_BITS:
        return f"holds 32-bit or signed integers of unknown range; {SAVE}"
    if picture.mode.startswith("I") and getattr(picture, "tag_v2", {}).get(tag) == value:
        return f"counts 16-bit greys from white to black, which is not read; {SAVE}"
    if _may_be_shallower(picture):
        return (
            "has 16 bits a channel of which no value reaches a quarter, so it may be of 8, 12 or 14 bits and would be "
            f"too dark; {SAVE}, or scale it to all 16"
        )
    return ""


def of_16_bits(picture: ImageFile.ImageFile) -> bool:
    """Whether a picture, as it was opened, has 16 bits a channel in its file; Pillow keeps 8 of a colour."""
    return picture.mode.startswith("I") or any(re.search(";16[BLN]", str(tile[3])) for tile in picture.tile)


def _may_be_shallower(picture: ImageFile.ImageFile) -> bool:
    """Whether a picture of 16 bits a channel has no value of 2^14 or more; black is black in any number of bits."""
    if picture.mode.startswith("I"):
        return 0 < int(np.asarray(picture).max()) < 2**14
    if not of_16_bits(picture):
        return False
    colours = [band for band, name in enumerate(picture.getbands()) if name not in "Aa"]
    # Pillow keeps the upper 8 bits: 8-bit values, gone altogether, look black
    return int(np.atleast_3d(np.asarray(picture))[..., colours].max()) < 2**6
