"""Values of unknown range are refused: read as if they had 16 bits, they would be almost black."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from ars.data.errors import DataError
from ars.data.images import decode

RAMP = np.arange(12).reshape(3, 4) / 11
FULL = (RAMP * 65535).astype(np.uint16)
DARK = "photo has 16 bits a channel of which no value reaches a quarter.*; save it with 8 bits a channel, or scale it"


def encoded(greys, kind, **options):
    buffer = io.BytesIO()
    Image.fromarray(greys).save(buffer, kind, **options)
    return buffer.getvalue()


def deep_png(values):
    """A PNG of 16 bits a channel, which Pillow writes for greys alone."""
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
    for data in (encoded(FULL, "PNG"), encoded(FULL, "TIFF"), encoded(FULL.astype(np.int32), "PPM")):
        assert np.array_equal(np.asarray(decode(data, "photo"))[..., 1], FULL // 257)
    for kind in ("PNG", "TIFF"):
        picture = decode(encoded(FULL[::-1, ::-1].copy(), kind, exif=turned), "photo")
        assert np.array_equal(np.asarray(picture)[..., 1], FULL // 257)
    with pytest.raises(DataError, match=DARK):
        decode(encoded(FULL >> 4, "PNG"), "photo")


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("bits", [8, 10, 12, 14])
def test_what_may_have_fewer_bits_than_16_is_refused(kind, bits):
    with pytest.raises(DataError, match=DARK):
        decode(encoded(FULL >> (16 - bits), kind), "photo")
    with pytest.raises(DataError, match=DARK):
        decode(coloured(FULL >> (16 - bits)), "photo")


def test_a_quarter_is_bright_enough_and_black_is_black():
    greys = np.array([[0, 2**14]], dtype=np.uint16)
    assert np.asarray(decode(encoded(greys, "PNG"), "photo")).max() == 2**14 // 257
    assert np.asarray(decode(coloured(greys), "photo")).max() == 2**14 // 256
    assert not np.asarray(decode(encoded(0 * greys, "PNG"), "photo")).any()


def test_colours_over_all_of_16_bits_are_read():
    assert np.array_equal(np.asarray(decode(coloured(FULL), "photo"))[..., 2], FULL >> 8)
    assert np.array_equal(np.asarray(decode(coloured(FULL, alpha=65535), "photo"))[..., 2], FULL >> 8)
    assert np.array_equal(np.asarray(decode(coloured(FULL, alpha=65535, channels=1), "photo"))[..., 2], FULL >> 8)


def test_what_is_opaque_is_not_bright_for_that():
    with pytest.raises(DataError, match=DARK):
        decode(coloured(FULL >> 4, alpha=65535), "photo")


def test_a_dark_picture_of_8_bits_is_read():
    dark = (RAMP * 9).astype(np.uint8)
    assert np.array_equal(np.asarray(decode(encoded(dark, "PNG"), "photo"))[..., 0], dark)


@pytest.mark.parametrize("values", [RAMP * 255, FULL, FULL.astype(np.int64) - 40_000, FULL.astype(np.int64) * 2])
def test_integers_of_32_bits_are_refused_whatever_they_are(values):
    with pytest.raises(DataError, match=r"^photo holds 32-bit or signed integers of unknown range; save it with 8"):
        decode(encoded(values.astype(np.int32), "TIFF"), "photo")


def test_floating_point_numbers_are_refused():
    with pytest.raises(DataError, match=r"^photo holds floating-point numbers of unknown range; save it with 8 bits"):
        decode(encoded(RAMP.astype(np.float32), "TIFF"), "photo")


def test_greys_that_count_from_white_are_refused():
    with pytest.raises(DataError, match=r"^photo counts 16-bit greys from white to black, which is not read; save it"):
        decode(encoded(FULL, "TIFF", tiffinfo={262: 0}), "photo")


def test_a_damaged_one_of_16_bits_is_named():
    noise = np.random.default_rng(0).integers(0, 65536, (64, 64), dtype=np.uint16)
    with pytest.raises(DataError, match=r"photo cannot be read as an image: .*; mend or remove it"):
        decode(encoded(noise, "PNG")[:3000], "photo")
