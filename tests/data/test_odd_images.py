import io
import os

import numpy as np
import pytest
from PIL import Image

from ars.data.errors import DataError
from ars.data.images import decode, read_image


def encoded(picture, kind, **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def halves(left, right, mode="RGB"):
    """A picture of 8x4 with a colour on each half."""
    picture = Image.new(mode, (8, 4), left)
    picture.paste(right, (4, 0, 8, 4))
    return picture


def corner(picture, column=0):
    return np.asarray(picture)[0, column].tolist()


def test_grey_becomes_colour():
    assert corner(decode(encoded(halves(10, 200, "L"), "PNG"), "grey")) == [10, 10, 10]


def test_sixteen_bit_greys_keep_their_range():
    greys = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    picture = decode(encoded(Image.fromarray(greys), "PNG"), "deep")
    assert np.asarray(picture)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_palettes_show_their_colours():
    picture = halves((255, 0, 0), (0, 0, 255)).quantize(2)
    assert corner(decode(encoded(picture, "PNG"), "palette")) == [255, 0, 0]


def test_what_is_transparent_shows_white():
    picture = halves((255, 0, 0, 255), (0, 255, 0, 0), "RGBA")
    shown = decode(encoded(picture, "PNG"), "see-through")
    assert corner(shown) == [255, 0, 0]
    assert corner(shown, 7) == [255, 255, 255]
    palette = halves((255, 0, 0), (0, 0, 255)).quantize(2)
    blue = palette.getpixel((7, 0))
    shown = decode(encoded(palette, "PNG", transparency=blue), "see-through palette")
    assert corner(shown) == [255, 0, 0]
    assert corner(shown, 7) == [255, 255, 255]


def test_ink_is_turned_into_light():
    picture = halves((255, 0, 0), (0, 0, 255)).convert("CMYK")
    red, blue = (corner(decode(encoded(picture, "JPEG", quality=100), "cmyk"), column) for column in (0, 7))
    assert red[0] > 240
    assert red[2] < 15
    assert blue[2] > 240
    assert blue[0] < 15


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_photographs_stand_upright(orientation):
    upright = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    turn = {  # what a camera stored, by what undoes it
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: np.transpose,
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(np.transpose(a), 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(np.ascontiguousarray(turn(upright))), "PNG", exif=exif)
    assert np.array_equal(np.asarray(decode(data, "turned"))[..., 0], upright)


def test_an_animation_shows_its_first_frame():
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert corner(decode(data, "animation")) == [255, 0, 0]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no image", "no image of a known kind"),
        (b"", "no image of a known kind"),
        (encoded(Image.effect_noise((64, 64), 90), "JPEG")[:600], "truncated"),
    ],
    ids=["text", "empty", "cut"],
)
def test_what_cannot_be_read_is_named_with_the_reason(data, reason):
    with pytest.raises(DataError, match=rf"photo cannot be read as an image: .*{reason}.*; mend or remove it"):
        decode(data, "photo")


def test_a_folder_is_no_image(tmp_path):
    with pytest.raises(DataError, match="is a folder; name the image files in it"):
        read_image(tmp_path)


def test_a_pipe_is_told_to_be_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is a pipe, which can be read but once; save the image to a file"):
        read_image(tmp_path / "pipe")


def test_what_a_decoder_gives_up_on_is_told(monkeypatch):
    def fails(self):
        raise RuntimeError("Failed to decode frame 0")

    picture = io.BytesIO()
    Image.new("L", (4, 4)).save(picture, "png")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", fails)
    with pytest.raises(DataError, match="photo cannot be read as an image: Failed to decode frame 0; mend"):
        decode(picture.getvalue(), "photo")
