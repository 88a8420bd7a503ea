"""Files whose values are not what the model sees."""

import numpy as np
import pytest
from PIL import Image

from ars.data.conversion import conversion
from ars.data.errors import DataError
from ars.data.images import read_image


def saved(path, pixels, mode=None, **options):
    picture = Image.fromarray(pixels)
    (picture if mode is None else picture.convert(mode)).save(path, **options)
    return path


COLOURS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_colours_of_8_bits_are_read_as_they_are(tmp_path, mode):
    path = saved(tmp_path / "x.png", COLOURS, mode)
    assert conversion(path) == ""
    seen = (255 * read_image(path)).round().permute(1, 2, 0).numpy()
    assert np.array_equal(seen, np.asarray(Image.open(path).convert("RGB")))


def test_16_bits_a_channel_are_read_with_8(tmp_path):
    grey = np.random.default_rng(0).integers(0, 2**16, (8, 8)).astype(np.uint16)
    assert conversion(saved(tmp_path / "x.png", grey)) == "read with 8 bits a channel"
    assert conversion(saved(tmp_path / "x.tif", grey)) == "read with 8 bits a channel"


def test_what_is_see_through_is_laid_on_white(tmp_path):
    clear = np.dstack([COLOURS, np.full((8, 8), 128, np.uint8)])
    assert conversion(saved(tmp_path / "x.png", clear)) == "laid on white"
    opaque = np.dstack([COLOURS, np.full((8, 8), 255, np.uint8)])
    assert conversion(saved(tmp_path / "y.png", opaque)) == ""
    palette = Image.fromarray(COLOURS).convert("P")
    palette.save(tmp_path / "z.png", transparency=palette.getpixel((0, 0)))
    assert conversion(tmp_path / "z.png") == "laid on white"


def test_ink_is_converted(tmp_path):
    assert conversion(saved(tmp_path / "x.tif", COLOURS, "CMYK")) == "converted from CMYK"


def test_what_is_no_image_is_told(tmp_path):
    (tmp_path / "x.png").write_bytes(b"none")
    with pytest.raises(DataError, match="cannot be read as an image"):
        conversion(tmp_path / "x.png")
