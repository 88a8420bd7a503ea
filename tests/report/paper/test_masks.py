"""Masks as they are shown: stretched, and no other than they are; and where they lie, for masks of known shares."""

import numpy as np
import pytest

from ars.report.paper.cells import load_cells
from ars.report.paper.entries import make_lineups
from ars.report.paper.masks import draw_masks, load_masks
from ars.report.paper.results import draw_all
from ars.report.paper.sheet import to_markdown
from ars.runs.paths import MASK_DRAWS
from ars.runs.records import ReportError

from .conftest import build_cell, entries_of, rows_of, sheets_of

HALF = np.full((64, 64), 100, np.uint8)
HALF[:, 32:] = 200  # of the squares, a fifth is on the left


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
    with pytest.raises(ReportError, match="for each of 2 masks"):
        made(tmp_path / "again", masks, largest=np.array([0.02], np.float32))
    with pytest.raises(ReportError, match="does not hold masks"):
        made(tmp_path / "small", masks[:, :8, :8])


def texts(figure):
    """What stands beside and below the masks, row by row."""
    return [[text.get_text() for text in panel.texts] for panel in figure.axes]


def test_the_figure_says_what_white_is_and_of_which_image_and_seed_a_mask_is(tmp_path):
    masks = np.zeros((2, 64, 64), np.uint8)
    masks[0], masks[1] = 30, 204
    figure = draw_masks([(made(tmp_path, masks), None)]).figure
    assert texts(figure) == [["image 0\nwhite is 0.12", "k = 64\nseed 0"], ["image 50\nwhite is 0.80"]]
    about = figure.texts[1].get_text().replace("\n", " ")
    assert all(words in about for words in (f"{MASK_DRAWS} draws", "orange", "not BG-20k"))


def test_the_static_mask_is_the_last_of_its_row(tmp_path):
    for k in (32, 64):
        build_cell(tmp_path / "fast", k=k, masks=2)
    build_cell(tmp_path / "fast", method="static_mask", k=64, seed=3, masks=2)
    views = make_lineups(entries_of(tmp_path))
    [name] = [drawn.name for drawn in draw_all(views) if drawn.name.startswith("masks")]
    assert name == "masks-fast-cifar_backgrounds-s0.5.svg"
    small, large = (load_masks(view.masked) for view in views)
    static = load_masks(views[1].static)
    figure = draw_masks([(small, None), (large, static)]).figure
    assert "; last: the static mask, one for all images" in figure.texts[1].get_text().replace("\n", " ")
    first, second = texts(figure)[:3], texts(figure)[3:]
    assert first[2] == []
    assert second[2] == [f"static, seed 3\nwhite is {static.largest[0]:.2f}"]
    [shown] = figure.axes[5].images
    assert np.array_equal(shown.get_array(), static.masks[0])
    assert len(figure.axes[5].patches) == 1  # its frame: it is of no image, so that no object is outlined
    assert len(figure.axes[4].patches) == 2


def put_masks(root, masks, *, boxes=True, seed=0):
    path = build_cell(root / "fast", seed=seed)
    arrays = {"masks": np.stack(masks), "indices": np.arange(len(masks)) * 50}
    arrays |= {"box": np.array([[0, 0, 64, 32]] * len(masks))} if boxes else {}
    np.savez(path / "masks.npz", **arrays)
    return path / "masks.npz"


def only_row(root):
    [row] = rows_of(sheets_of(root)["masks"])
    return row


def test_the_share_of_the_squared_norm_and_the_noise_left(tmp_path):
    put_masks(tmp_path, [HALF, HALF[:, ::-1]])
    row = only_row(tmp_path)
    assert (float(row["inside"]), row["inside_range"], float(row["area"])) == (50.0, "20 to 80", 50.0)
    stretched = np.sqrt((128**2 + 255**2) / 2) / 255  # 255 stands for the largest weight
    assert float(row["noise_left"]) == pytest.approx(stretched, abs=1e-4)
    assert (row["noise_left_range"], row["images"]) == ("0.79", "2")


def test_seeds_have_a_deviation_and_one_range(tmp_path):
    put_masks(tmp_path, [HALF])
    put_masks(tmp_path, [HALF[:, ::-1]], seed=1)
    row = only_row(tmp_path)
    assert (float(row["inside"]), row["inside_range"], row["seeds"]) == (50.0, "20 to 80", "0 1")
    assert float(row["inside_std"]) == pytest.approx(42.4, abs=0.5)


@pytest.mark.parametrize(
    ("value", "boxes", "expected"),
    [
        (
            255,
            False,
            {"inside": "", "inside_range": "", "area": "", "noise_left": "1.0000", "noise_left_range": "1.00"},
        ),
        (0, True, {"inside": "0.000", "noise_left": "0.0000"}),  # a mask that hides everything lies nowhere
    ],
)
def test_without_outlines_or_weights_only_the_noise_is_known(tmp_path, value, boxes, expected):
    put_masks(tmp_path, [np.full((64, 64), value, np.uint8)], boxes=boxes)
    assert only_row(tmp_path).items() >= expected.items()


def test_the_masks_are_among_the_sources_and_without_any_there_is_no_table(tmp_path):
    build_cell(tmp_path / "without" / "fast")
    assert "masks" not in sheets_of(tmp_path / "without")
    path = put_masks(tmp_path / "with", [HALF])
    table = sheets_of(tmp_path / "with")["masks"]
    assert path in table.sources
    assert "fast: [0](../fast/adaptive-k64-s0.5-seed0/recipe.yaml)" in to_markdown(table)
