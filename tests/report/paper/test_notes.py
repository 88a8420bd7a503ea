"""Rows that cannot be compared say so, in every table and on the page."""

import pytest

from ars.report.paper.by_size import draw_by_size
from ars.report.paper.entries import make_lineups
from ars.report.paper.notes import alphas, other_images
from ars.report.paper.results import write_results
from ars.report.paper.sheet import to_markdown
from ars.report.table import judged_text

from .conftest import build_cell, entries_of, rows_of, sheets_of

OTHER = {"alpha": 0.45, "data": {"seed": 7}}


@pytest.fixture
def root(tmp_path):
    """A static mask with another alpha on other test inputs, as a sweep's override may ask for."""
    for k in (32, 64):
        for method in ("cohen", "static_mask", "adaptive"):
            own = OTHER if (method, k) == ("static_mask", 64) else {"alpha": 0.001, "data": {"seed": 0}}
            build_cell(tmp_path / "fast", method=method, k=k, **own)
    return tmp_path


@pytest.fixture
def sheets(root):
    return sheets_of(root)


def test_alpha_stands_beside_every_certified_accuracy(sheets):
    certified = [
        name for name in sheets if not name.startswith(("runs", "vote", "table-1-glance", "k32", "leads", "masks"))
    ]
    assert len(certified) == 6
    for name in certified:
        told = {(row["k"], row["method"]): row["alpha"] for row in rows_of(sheets[name]) if row["recipe"]}
        assert told == {
            (k, method): "0.45" if (k, method) == ("64", "static mask") else "0.001"
            for k in ("32", "64")
            for method in ("Cohen et al.", "static mask", "ARS")
        }
        assert " | α | " in to_markdown(sheets[name])
    assert "α: 0.001, but 0.45 for static mask at k = 64, σ = 0.5." in to_markdown(sheets["table-1-glance-fast"])


def test_the_subset_sizes_say_alpha_and_which_images(tmp_path):
    build_cell(tmp_path / "fast", method="adaptive", k=32, images=200, alpha=0.01)
    sheet = sheets_of(tmp_path)["k32-subset-sizes"]
    assert {(row["alpha"], row["subset"]) for row in rows_of(sheet) if row["recipe"]} == {("0.01", "test[::50]")}


def test_rows_on_other_images_are_marked_and_named(sheets):
    sentence = (
        "‡ Not the same images: static mask at k = 64, σ = 0.5 answered for other test images than the other rows of "
        "CIFAR-10 on backgrounds at k = 64."
    )
    for name in ("measures", "measures-class-bounds", "table-1", "table-1-glance-fast", "vote-cifar-backgrounds"):
        assert to_markdown(sheets[name]).count("Not the same images") == to_markdown(sheets[name]).count(sentence) == 1
        if "glance" not in name:
            marked = {(row["k"], row["method"]) for row in rows_of(sheets[name]) if "‡" in row["images"]}
            assert marked == {("64", "static mask")}
            assert {row["inputs"].partition(", data.seed ")[2] for row in rows_of(sheets[name])} == {"", "7"}


def test_what_early_records_do_not_say_is_said_once(tmp_path):
    build_cell(tmp_path / "fast", method="cohen")
    build_cell(tmp_path / "fast", seen=(10_000, 0.5, 0.25))
    [lineup] = make_lineups(entries_of(tmp_path))
    early, later = lineup.blocks[0].section.runs
    assert lineup.blocks[0].judged == str(later.judged) != str(early.judged)
    assert judged_text([early], among=[early]) == str(early.judged)


def test_more_certified_images_are_other_images_but_the_same_test_set(tmp_path):
    build_cell(tmp_path / "fast", method="cohen", images=20)
    for method in ("static_mask", "adaptive"):
        build_cell(tmp_path / "fast", method=method)
    entries = entries_of(tmp_path)
    [sentence] = other_images(entries)
    assert "Cohen et al. answered for other test images" in sentence
    assert other_images(entries, certified=False) == []


def test_the_page_and_the_figure_say_whose_alpha_and_whose_images(root):
    write_results(root, root)
    page = (root / "index.html").read_text(encoding="utf-8")
    assert page.count("not all rows can be compared") == 2  # under both bounds, at k = 64
    [panel, _] = draw_by_size(entries_of(root)).figure.axes
    for text in (page, panel.texts[0].get_text().replace("\n", " ")):
        assert "α: 0.001, but 0.45 for static mask" in text
        assert "Not the same images" in text


def test_a_setting_that_differs_as_a_whole_is_named_without_its_methods(tmp_path):
    for k in (32, 64):
        for method in ("cohen", "adaptive"):
            build_cell(tmp_path / "fast", method=method, k=k, alpha=0.05 if k == 32 else 0.1)
    assert alphas(entries_of(tmp_path)) == "0.05, but 0.1 for k = 64, σ = 0.5"


def test_recipes_with_other_images_are_told_apart(results):
    assert other_images(entries_of(results)) == [
        "Not the same images: k = 64, σ = 0.5, recipe paper answered for other test images than the other rows of "
        "CIFAR-10 on backgrounds at k = 64."
    ]
