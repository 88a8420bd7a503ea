import io

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from PIL import Image

from ars.data.benchmark import uniforms
from ars.data.crops import (
    DRAWS,
    RATIOS,
    box_after_resizing,
    cut,
    holding_offset,
    random_resized_box,
    read_fitted,
    resized,
)
from ars.data.image_files import as_bytes
from ars.data.settings import DataError


def noise(width, height, seed=0):
    smooth = np.random.default_rng(seed).integers(256, size=(height // 4 + 1, width // 4 + 1, 3), dtype=np.uint8)
    return Image.fromarray(smooth).resize((width, height), Image.Resampling.BICUBIC)


@settings(deadline=None, max_examples=40)
@given(width=st.integers(20, 400), height=st.integers(20, 400), seed=st.integers(0, 1000))
def test_a_box_is_resizing_first_and_cropping_then(width, height, seed):
    short, side = 64, 56
    picture = noise(width, height, seed)
    whole = picture.resize(resized(width, height, short), Image.Resampling.BILINEAR)
    left, top = (int(u * (length - side + 1)) for u, length in zip(uniforms([seed], 2), whole.size, strict=True))
    box = box_after_resizing(width, height, short=short, left=left, top=top, side=side)
    assert 0 <= box[0] < box[2] <= width + 1e-9
    ours = as_bytes(cut(picture, _within(box, width, height), side, "x")).astype(int)
    theirs = as_bytes(whole.crop((left, top, left + side, top + side))).astype(int)
    assert np.abs(ours - theirs).max() <= 1


def _within(box, width, height):
    return (box[0], box[1], min(box[2], width), min(box[3], height))


def fitted(picture, path):
    picture.save(path)
    return (255 * read_fitted(path, (24, 24))[0]).round().int().numpy()


@pytest.mark.parametrize("size", [(24, 24), (48, 48), (50, 31), (90, 7), (1, 1), (50, 24), (24, 50), (100, 48)])
def test_fitting_covers_the_size_and_keeps_the_middle(size, tmp_path):
    picture = noise(*size)
    left, top = (max(0, (mine - other) // 2) for mine, other in (size, size[::-1]))
    middle = picture.crop((left, top, size[0] - left, size[1] - top))
    ours = fitted(picture, tmp_path / "whole.png")
    assert ours.shape == (3, 24, 24)
    if min(size) == 24:
        assert np.array_equal(ours, as_bytes(middle))
    if min(size) >= 24 and sum(size) % 2 == 0:
        # away from the cut, where scaling saw what was cut away
        assert np.abs(ours - fitted(middle, tmp_path / "middle.png"))[:, 2:-2, 2:-2].max() <= 1


@settings(deadline=None)
@given(width=st.integers(1, 600), height=st.integers(1, 600), seed=st.integers(0, 10**6))
def test_a_random_box_lies_in_the_picture(width, height, seed):
    left, top, right, lower = random_resized_box(width, height, uniforms([seed], DRAWS), smallest=0.08)
    assert 0 <= left < right <= width
    assert 0 <= top < lower <= height


def test_random_boxes_have_the_areas_and_ratios_of_the_usual_crop():
    boxes = [random_resized_box(1000, 1000, uniforms([seed], DRAWS), smallest=0.08) for seed in range(4000)]
    width, height = (np.array([box[2 + axis] - box[axis] for box in boxes]) for axis in (0, 1))
    areas, ratios = width * height / 1e6, width / height
    assert areas.min() == pytest.approx(0.08, abs=0.005)
    # In a square, area A and log-ratio t are accepted where A <= exp(-|t|): E[A] is a quotient of two integrals.
    widest = np.log(RATIOS[1])
    accepted = 1 - np.exp(-widest) - 0.08 * widest
    assert areas.mean() == pytest.approx(((1 - np.exp(-2 * widest)) / 2 - 0.08**2 * widest) / 2 / accepted, abs=0.015)
    assert ratios.min() == pytest.approx(RATIOS[0], abs=0.01)
    assert ratios.max() == pytest.approx(RATIOS[1], abs=0.01)
    assert np.log(ratios).mean() == pytest.approx(0, abs=0.02)


def test_a_picture_too_long_for_any_box_gives_its_centre():
    assert random_resized_box(1000, 10, uniforms([1], DRAWS), smallest=0.9) == (493, 0, 506, 10)


@settings(deadline=None)
@given(
    length=st.integers(160, 600),
    points=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5),
    u=st.floats(0, 1, exclude_max=True),
)
def test_a_window_holds_its_points_wherever_that_is_possible(length, points, u):
    points = [point * length for point in points]
    start = holding_offset(length, 160, points, 10, u)
    assert 0 <= start <= length - 160
    possible = [at for at in range(length - 159) if at + 10 <= min(points) and max(points) <= at + 150]
    if possible:
        assert start in possible
    elif max(points) - min(points) <= 140 - 1:  # near an end of the picture: in view, if not 10 px inside
        assert start <= min(points)
        assert max(points) <= start + 160


def test_every_window_that_holds_the_points_is_reached():
    starts = {holding_offset(240, 160, [100.0, 140.0], 10, u) for u in np.linspace(0, 0.999, 2000)}
    assert starts == set(range(81))
    assert {holding_offset(294, 160, [200.0], 10, u) for u in np.linspace(0, 0.999, 2000)} == set(range(50, 135))


def test_decoding_at_half_size_shows_the_same_picture():
    buffer = io.BytesIO()
    noise(100, 75).resize((1600, 1200), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=95)
    box = (101.0, 53.0, 1501.0, 1103.0)
    exact, fast = (
        as_bytes(cut(Image.open(io.BytesIO(buffer.getvalue())), box, 224, "x", fast=fast)).astype(int)
        for fast in (False, True)
    )
    assert 0 < np.abs(exact - fast).mean() < 1
    opened = Image.open(io.BytesIO(buffer.getvalue()))
    cut(opened, (0.0, 0.0, 300.0, 300.0), 224, "x", fast=True)
    assert opened.size == (1600, 1200)  # a small box needs all pixels
    cut(opened := Image.open(io.BytesIO(buffer.getvalue())), box, 224, "x", fast=True)
    assert opened.size == (400, 300)


@pytest.mark.parametrize("fast", [False, True])
def test_a_damaged_picture_is_told_once(fast):
    buffer = io.BytesIO()
    noise(64, 64).save(buffer, "JPEG")
    damaged = Image.open(io.BytesIO(buffer.getvalue()[:-300]))
    with pytest.raises(DataError, match=r"^photo cannot .* truncated") as caught:
        cut(damaged, (0, 0, 64, 64), 32, "photo", fast=fast)
    assert str(caught.value).count("truncated") == 1
