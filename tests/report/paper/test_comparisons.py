"""How far methods are apart, against numbers that are computed here from the JSON lines alone."""

import math
import re
import shutil
import statistics
import warnings
from dataclasses import replace

import pytest

from ars.report.measures import Lead
from ars.report.paper.results import write_results
from ars.report.paper.sheet import ahead, to_markdown
from ars.runs.vote_count import read_tally

from .conftest import build_cell, lines_of, rows_of, sheets_of

METHODS = ("cohen", "static_mask", "adaptive")


@pytest.fixture
def root(tmp_path):
    """Three seeds of ARS, two others of Cohen et al., one of the static mask."""
    for method, seeds in (("adaptive", (0, 1, 2)), ("cohen", (1, 2, 3)), ("static_mask", (2,))):
        for seed in seeds:
            build_cell(tmp_path / "fast", method=method, seed=seed)
    return tmp_path


def sheet(root, name="leads"):
    return sheets_of(root).get(name)


def rows(root, name="leads", **wanted):
    found = sheet(root, name)
    return rows_of(found, **wanted) if found else []


def radii(root, method, seed, bound):
    """The radius of every image that is certified and right, in 1/255; 0 elsewhere."""
    records = lines_of(root / f"fast/{method}-k64-s0.5-seed{seed}")
    return [255 * it["radii"][bound] * (it["candidate"] == it["truth"]) for it in records]


def mean_and_error(apart):
    return statistics.mean(apart), statistics.stdev(apart) / math.sqrt(len(apart))


@pytest.mark.parametrize(("bound", "suffix"), [("cohen", ""), ("classes", "-class-bounds")])
@pytest.mark.parametrize(
    ("one", "other", "seeds"),
    [("adaptive", "cohen", (1, 2)), ("adaptive", "static_mask", (2,)), ("static_mask", "cohen", (2,))],
)
def test_leads_are_counted_image_by_image_over_the_seeds_that_both_have(root, bound, suffix, one, other, seeds):
    names = {"cohen": "Cohen et al.", "static_mask": "static mask", "adaptive": "ARS"}
    [row] = rows(root, f"leads{suffix}", method=names[one], less=names[other])
    mine, theirs = ([radii(root, method, seed, bound) for seed in seeds] for method in (one, other))
    images = list(zip(zip(*mine, strict=True), zip(*theirs, strict=True), strict=True))
    right = [100 * statistics.mean((a > 0) - (b > 0) for a, b in zip(*pair, strict=True)) for pair in images]
    apart = [statistics.mean(a - b for a, b in zip(*pair, strict=True)) for pair in images]
    for name, (mean, error) in {
        "standard_accuracy": mean_and_error(right),
        "average_radius_255": mean_and_error(apart),
    }.items():
        assert float(row[name]) == pytest.approx(mean, abs=1e-3)
        assert float(row[f"{name}_error"]) == pytest.approx(error, abs=1e-3)
    by_seed = [
        100 * statistics.mean((a > 0) - (b > 0) for a, b in zip(*seed, strict=True))
        for seed in zip(mine, theirs, strict=True)
    ]
    assert list(map(float, row["standard_accuracy_by_seed"].split(", "))) == pytest.approx(by_seed, abs=0.051)
    assert row["seeds"] == " ".join(map(str, seeds))


def test_leads_of_votes_have_the_error_of_two_sets_of_images(root):
    [row] = rows(root, method="ARS", less="Cohen et al.")
    votes = [[read_tally(root / f"fast/{m}-k64-s0.5-seed{seed}") for m in ("adaptive", "cohen")] for seed in (1, 2)]
    means = [100 * (mine.accuracy - theirs.accuracy) for mine, theirs in votes]
    errors = [100 * math.sqrt(sum(p.accuracy * (1 - p.accuracy) / 10_000 for p in pair)) for pair in votes]
    assert float(row["vote"]) == pytest.approx(statistics.mean(means), abs=1e-3)
    assert float(row["vote_error"]) == pytest.approx(statistics.mean(errors), abs=1e-3)
    assert list(map(float, row["vote_by_seed"].split(", "))) == pytest.approx(means, abs=0.051)


def test_both_methods_are_the_sources_of_a_lead_and_are_linked(root):
    [line] = [
        line for line in sheet(root).lines if (line.values["method"], line.values["less"]) == ("ARS", "static mask")
    ]
    recipes = {f"fast/{method}-k64-s0.5-seed2/recipe.yaml" for method in ("adaptive", "static_mask")}
    [row] = rows(root, method="ARS", less="static mask")
    assert set(row["recipes"].split()) == recipes
    assert {root / recipe for recipe in recipes} <= set(sheet(root).sources)
    assert {cell.recipe for cell in line.cells} == recipes
    links = re.findall(r"\]\(\.\./(.*?)\)", to_markdown(sheet(root)))
    assert recipes < set(links)


@pytest.mark.parametrize("other", [{"images": 30}, {"alpha": 0.01}, {"draws": 1000}])
def test_what_was_certified_otherwise_is_not_compared(tmp_path, other):
    build_cell(tmp_path / "fast", method="cohen", **other)
    build_cell(tmp_path / "fast")
    [row] = rows(tmp_path)
    assert (row["standard_accuracy"], row["average_radius_255"], row["images"]) == ("", "", "")
    assert row["vote"]


@pytest.mark.parametrize("other", [{"images": 9_000, "correct": 4_500}, {"draws": 1_000}])
def test_votes_on_other_images_or_of_other_draws_are_not_compared(tmp_path, other):
    build_cell(tmp_path / "fast", method="cohen")
    path = build_cell(tmp_path / "fast")
    (path / "vote.json").write_text(replace(read_tally(path), **other).to_json())
    [row] = rows(tmp_path)
    assert row["standard_accuracy"]
    assert row["vote"] == row["vote_by_seed"] == ""


@pytest.mark.parametrize("other", [{"data": {"seed": 7}}, {"seed": 1}])
def test_other_test_sets_and_no_common_seeds_are_not_compared_at_all(tmp_path, other):
    build_cell(tmp_path / "fast", method="cohen", **other)
    build_cell(tmp_path / "fast")
    assert rows(tmp_path) == []


def test_no_lead_is_of_fewer_seeds_than_are_said(tmp_path):
    for method in ("cohen", "adaptive"):
        for seed in (0, 1):
            path = build_cell(tmp_path / "fast", method=method, seed=seed)
    shutil.rmtree(path / "certify")
    [row] = rows(tmp_path)
    assert (row["standard_accuracy"], row["seeds"]) == ("", "0 1")
    assert row["vote"]
    (path / "vote.json").unlink()
    assert rows(tmp_path) == []


def test_of_one_image_no_error_is_known(tmp_path):
    for method in METHODS:
        build_cell(tmp_path / "fast", method=method, images=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows(tmp_path)
    assert {row["standard_accuracy_error"] for row in found} == {""}
    assert "nan" not in to_markdown(sheet(tmp_path))


def test_no_number_is_less_than_nothing():
    little = ahead(Lead(mean=-0.0004, error=0.01))
    assert str(little) == "0.0 ± 1.0"
    assert little.in_full == ("-0.040", "1.000")


def test_the_page_says_how_far_the_best_is_ahead(tmp_path):
    root = tmp_path
    for method, seeds in (("adaptive", (0, 1)), ("cohen", (0, 1)), ("static_mask", (1,))):
        for seed in seeds:
            build_cell(root / "fast", method=method, sigma=0.25, seed=seed)
    write_results(root, root)
    page = (root / "index.html").read_text(encoding="utf-8")
    told = re.findall(r'<p class="leads">(.*?)</p>', page, flags=re.DOTALL)
    assert len(told) == 2  # one per bound
    for text, name in zip(told, ("leads", "leads-class-bounds"), strict=True):
        assert text.startswith("ARS less ")
        for other in ("Cohen et al.", "static mask"):
            [row] = rows(root, name, method="ARS", less=other)
            lead = f"{float(row['standard_accuracy']):.1f} ± {float(row['standard_accuracy_error']):.1f}"
            vote = f"{float(row['vote']):.1f} ± {float(row['vote_error']):.1f}"
            assert f"{other}: {lead} (vote {vote})" in text
        assert f'href="tables/{name}.md"' in page
