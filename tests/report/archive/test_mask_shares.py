"""The table of masks, against masks whose shares are known."""

import csv
import io

import numpy as np
import pytest

from ars.report.archive.cells import load_cells
from ars.report.archive.entries import make_entries
from ars.report.archive.sheet import to_csv, to_markdown
from ars.report.archive.writing import make_sheets

from .conftest import build_cell

HALF = np.full((64, 64), 100, np.uint8)
HALF[:, 32:] = 200  # of the squares, a fifth is on the left


def put_masks(root, masks, *, boxes=True, seed=0):
    path = build_cell(root / "fast", seed=seed)
    arrays = {"masks": np.stack(masks), "indices": np.arange(len(masks)) * 50}
    arrays |= {"box": np.array([[0, 0, 64, 32]] * len(masks))} if boxes else {}
    np.savez(path / "masks.npz", **arrays)
    return path / "masks.npz"


def table(root):
    return {sheet.name: sheet for sheet in make_sheets(make_entries(load_cells(root)))}.get("masks")


def only_row(root):
    [row] = csv.DictReader(io.StringIO(to_csv(table(root))))
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


def test_without_outlines_only_the_noise_is_known(tmp_path):
    put_masks(tmp_path, [np.full((64, 64), 255, np.uint8)], boxes=False)
    row = only_row(tmp_path)
    assert (row["inside"], row["inside_range"], row["area"]) == ("", "", "")
    assert (float(row["noise_left"]), row["noise_left_range"]) == (1.0, "1.00")


def test_a_mask_that_hides_everything_lies_nowhere(tmp_path):
    put_masks(tmp_path, [np.zeros((64, 64), np.uint8)])
    row = only_row(tmp_path)
    assert (float(row["inside"]), float(row["noise_left"])) == (0.0, 0.0)


def test_the_masks_are_among_the_sources(tmp_path):
    path = put_masks(tmp_path, [HALF])
    assert path in table(tmp_path).sources
    assert "fast: [0](../fast/adaptive-k64-s0.5-seed0/recipe.yaml)" in to_markdown(table(tmp_path))


def test_without_masks_there_is_no_table(tmp_path):
    build_cell(tmp_path / "fast")
    assert table(tmp_path) is None
