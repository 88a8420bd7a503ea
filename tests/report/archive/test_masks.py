"""Masks as they are shown: stretched, and no other than they are."""

import numpy as np
import pytest

from ars.report.archive import write_results
from ars.report.archive.cells import load_cells
from ars.report.archive.masks import draw_masks, load_masks
from ars.report.errors import ReportError

from .conftest import build_cell


def made(tmp_path, masks, **more):
    """Masks of a cell with other weights than it was built with."""
    path = build_cell(tmp_path / "fast", k=64, masks=len(masks))
    with np.load(path / "masks.npz") as arrays:
        np.savez(path / "masks.npz", **{**arrays, "masks": masks, **more})
    return load_masks(load_cells(tmp_path)[0])


def test_a_mask_of_an_earlier_version_is_shown_with_its_largest_weight_as_white_and_its_ratios_kept(tmp_path):
    masks = np.zeros((3, 64, 64), np.uint8)
    masks[0, 3, 5], masks[0, 4, 5], masks[1] = 30, 15, 255
    shown = made(tmp_path, masks)
    assert shown.largest.tolist() == pytest.approx([30 / 255, 1.0, 0.0])
    assert (shown.masks[0, 3, 5], shown.masks[0, 4, 5], shown.masks[0, 0, 0]) == (255, 128, 0)
    assert np.all(shown.masks[1] == 255)
    assert not shown.masks[2].any()


def test_masks_with_their_largest_weights_are_shown_as_they_are(tmp_path):
    masks = np.full((2, 64, 64), 200, np.uint8)
    shown = made(tmp_path, masks, largest=np.array([0.02, 0.5], np.float32))
    assert np.array_equal(shown.masks, masks)
    assert shown.largest.tolist() == pytest.approx([0.02, 0.5])
    with pytest.raises(ReportError, match="not an index, a largest weight and a box for each of 2 masks"):
        made(tmp_path / "again", masks, largest=np.array([0.02], np.float32))


def test_the_figure_says_what_white_is(tmp_path):
    masks = np.zeros((2, 64, 64), np.uint8)
    masks[0], masks[1] = 30, 204
    svg = draw_masks([made(tmp_path, masks)]).svg.decode()
    assert "0: 0.12" in svg
    assert "50: 0.80" in svg


def test_the_page_shows_the_static_mask_once_beside_those_of_ars(tmp_path):
    build_cell(tmp_path / "fast", method="adaptive", k=64, masks=3)
    build_cell(tmp_path / "fast", method="static_mask", k=64, masks=3)
    write_results(tmp_path, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (page.count('alt="Mask of test image'), page.count('alt="The static mask"')) == (3, 1)
    assert "the last, which is one for all images" in page
