"""What an image file shows: every kind is read as 8-bit RGB, and values of unknown range are refused."""

import io
import os
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, PngImagePlugin

from ars.data.image_files import conversion, decode, read_image, to_unit
from ars.data.settings import DataError


def test_every_byte_lands_in_the_unit_interval_next_to_its_share():
    every = torch.arange(256, dtype=torch.uint8)
    unit = to_unit(every)
    assert unit.dtype == torch.float32
    assert unit[[0, 255]].tolist() == [0, 1]
    assert torch.allclose(unit.double(), every.double() / 255, atol=0, rtol=1e-7)


def encoded(picture, kind, **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def halves(left, right, mode="RGB"):
    """A picture of 8x4 with a colour on each half."""
    picture = Image.new(mode, (8, 4), left)
    picture.paste(right, (4, 0, 8, 4))
    return picture


COLOURS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)


def corner(picture, column=0):
    return np.asarray(picture)[0, column].tolist()


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1"])
def test_colours_of_8_bits_are_read_as_they_are(tmp_path, mode):
    Image.fromarray(COLOURS).convert(mode).save(tmp_path / "x.png")
    assert conversion(tmp_path / "x.png") == ""
    seen = (255 * read_image(tmp_path / "x.png")).round().permute(1, 2, 0).numpy()
    assert np.array_equal(seen, np.asarray(Image.open(tmp_path / "x.png").convert("RGB")))


def converted(tmp_path, picture, kind, **options):
    """The left and the right corner as they are read, and what is said of it."""
    path = tmp_path / f"x.{kind}"
    picture.save(path, **options)
    shown = decode(path.read_bytes(), "photo")
    return corner(shown), corner(shown, 7), conversion(path)


def test_what_is_transparent_is_laid_on_white(tmp_path):
    red, white = [255, 0, 0], [255, 255, 255]
    picture = halves((255, 0, 0, 255), (0, 255, 0, 0), "RGBA")
    assert converted(tmp_path, picture, "png") == (red, white, "put on white")
    palette = halves((255, 0, 0), (0, 0, 255)).quantize(2)
    options = {"transparency": palette.getpixel((7, 0))}
    assert converted(tmp_path, palette, "png", **options) == (red, white, "put on white")
    opaque = halves((255, 0, 0, 255), (255, 255, 255, 255), "RGBA")
    assert converted(tmp_path, opaque, "png") == (red, white, "")


def test_ink_is_turned_into_light(tmp_path):
    picture = halves((255, 0, 0), (0, 0, 255)).convert("CMYK")
    red, blue, told = converted(tmp_path, picture, "jpg", quality=100)
    assert min(red[0], blue[2]) > 240
    assert max(red[2], blue[0]) < 15
    assert "CMYK" in told


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
        (b"no image", "not an image of a known format"),
        (b"", "not an image of a known format"),
        (encoded(Image.effect_noise((64, 64), 90), "JPEG")[:600], "truncated"),
        (encoded(Image.effect_noise((64, 64), 90).convert("I;16"), "PNG")[:3000], ""),
    ],
    ids=["text", "empty", "cut", "cut and of 16 bits"],
)
def test_what_cannot_be_read_is_named_with_the_reason(data, reason):
    with pytest.raises(DataError, match=rf"photo cannot be read as an image: .*{reason}"):
        decode(data, "photo")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "b.png").write_text("no image")
    for name, told in (
        (".", "folder"),
        ("pipe", "pipe"),
        ("a.png", "no image at"),
        ("b.png", r"b\.png cannot be read"),
    ):
        for read in (read_image, conversion):
            with pytest.raises(DataError, match=told):
                read(tmp_path / name)


def test_what_a_decoder_gives_up_on_is_told(monkeypatch):
    def fails(self):
        raise RuntimeError("Failed to decode frame 0")

    data = encoded(Image.new("L", (4, 4)), "PNG")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", fails)
    with pytest.raises(DataError, match=r"photo .* Failed to decode"):
        decode(data, "photo")


RAMP = np.arange(12).reshape(3, 4) / 11
FULL = (RAMP * 65535).astype(np.uint16)
DARK = "photo has 16 bits"


def encoded_greys(greys, kind, **options):
    return encoded(Image.fromarray(greys), kind, **options)


def deep_png(values):
    """A PNG of 16 bits per channel, which Pillow writes for greys alone."""
    height, width, channels = values.shape

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    pixels = zlib.compress(rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def coloured(greys, *, alpha=None, channels=3):
    values = np.stack([greys] * channels, axis=-1)
    return deep_png(values if alpha is None else np.dstack([values, np.full_like(greys, alpha)]))


@pytest.mark.parametrize("opened_as", ["I;16", "I"], ids=["as now", "as by Pillow 10"])
def test_greys_over_all_of_16_bits_are_read_however_they_are_opened(opened_as, monkeypatch):
    monkeypatch.setitem(PngImagePlugin._MODES, (16, 0), (opened_as, "I;16B"))
    turned = Image.Exif()
    turned[0x0112] = 3
    for data in (encoded_greys(FULL, "PNG"), encoded_greys(FULL, "TIFF"), encoded_greys(FULL.astype(np.int32), "PPM")):
        assert np.array_equal(np.asarray(decode(data, "photo"))[..., 1], FULL // 257)
    for kind in ("PNG", "TIFF"):
        picture = decode(encoded_greys(FULL[::-1, ::-1].copy(), kind, exif=turned), "photo")
        assert np.array_equal(np.asarray(picture)[..., 1], FULL // 257)
    with pytest.raises(DataError, match=DARK):
        decode(encoded_greys(FULL >> 4, "PNG"), "photo")


@pytest.mark.parametrize("bits", [8, 10, 12, 14])
def test_what_may_have_fewer_bits_than_16_is_refused(bits):
    greys = FULL >> (16 - bits)
    pngs = [coloured(greys, alpha=alpha) for alpha in (None, 65535)]  # what is opaque is not bright for that
    for data in (encoded_greys(greys, "PNG"), encoded_greys(greys, "TIFF"), *pngs):
        with pytest.raises(DataError, match=DARK):
            decode(data, "photo")


def test_a_quarter_is_bright_enough_and_black_is_black():
    greys = np.array([[0, 2**14]], dtype=np.uint16)
    assert np.asarray(decode(encoded_greys(greys, "PNG"), "photo")).max() == 2**14 // 257
    assert np.asarray(decode(coloured(greys), "photo")).max() == 2**14 // 256
    assert not np.asarray(decode(encoded_greys(0 * greys, "PNG"), "photo")).any()


@pytest.mark.parametrize("options", [{}, {"alpha": 65535}, {"alpha": 65535, "channels": 1}])
def test_colours_over_all_of_16_bits_are_read_with_8(tmp_path, options):
    (tmp_path / "x.png").write_bytes(coloured(FULL, **options))
    assert np.array_equal((255 * read_image(tmp_path / "x.png")[2]).round().numpy(), FULL >> 8)
    assert conversion(tmp_path / "x.png") == "read with 8 bits per channel"


UNKNOWN = {
    "floating-point": RAMP.astype(np.float32),
    "32-bit": FULL.astype(np.int32) * 2,
    "signed": FULL.astype(np.int32) - 40_000,
    "integers": (RAMP * 255).astype(np.int32),
}


@pytest.mark.parametrize("named", UNKNOWN)
def test_values_of_unknown_range_are_refused(named):
    with pytest.raises(DataError, match=f"^photo holds .*{named}"):
        decode(encoded_greys(UNKNOWN[named], "TIFF"), "photo")


def test_greys_that_count_from_white_are_refused():
    with pytest.raises(DataError, match=r"^photo has inverted"):
        decode(encoded_greys(FULL, "TIFF", tiffinfo={262: 0}), "photo")


def test_fields_of_another_type_are_refused_in_one_sentence():
    """Pillow's decoders raise errors of a dozen kinds, here a TypeError."""
    out, refused = io.BytesIO(), 0
    Image.new("RGB", (8, 8), "red").save(out, format="TIFF")
    data = out.getvalue()
    [start] = struct.unpack("<I", data[4:8])
    for field in range(int.from_bytes(data[start : start + 2], "little")):
        at = start + 2 + 12 * field + 2
        for kind in range(1, 13):
            try:
                decode(data[:at] + bytes([kind, 0]) + data[at + 2 :], "photo.tiff")
            except DataError as error:
                refused += 1
                assert "photo.tiff" in str(error)  # noqa: PT017 - some of them are read
    assert refused
