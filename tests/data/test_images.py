import numpy as np
import pytest
from PIL import Image

from ars.data.images import read_image


def test_an_image_is_read_as_rgb_in_the_unit_interval(tmp_path):
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10
    Image.fromarray(pixels).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert image.shape == (3, 2, 3)
    assert np.array_equal((image.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8), pixels)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"there is no image at .*a\.png"):
        read_image(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("no image")
    with pytest.raises(ValueError, match=r"b\.png cannot be read as an image"):
        read_image(tmp_path / "b.png")
