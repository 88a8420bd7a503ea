"""Charts of accuracy against the radius, never above what is certified, and against k, with votes beside."""

import re
from itertools import pairwise

import numpy as np
import pytest

from ars.report.archive import write_results
from ars.report.archive.by_size import Trend, draw_by_size, make_trends, vote_trends
from ars.report.archive.cells import load_cells
from ars.report.archive.charts import BOTTOM, LEFT, RIGHT, TOP, curve_chart, trend_chart
from ars.report.archive.differences import draws_by_size, epochs_by_size
from ars.report.archive.entries import make_entries
from ars.report.curves import largest_radius
from ars.report.groups import make_sections
from ars.report.measures import Spread, certified_accuracy
from ars.report.results import load_runs
from ars.report.table import make_table

from .conftest import build_cell


def corners(path):
    """The points of a path of M, H and V."""
    points = []
    for command, numbers in re.findall(r"([MHV])([\d ]+)", path):
        values = [int(number) for number in numbers.split()]
        x, y = points[-1] if points else (0, 0)
        points.append({"M": tuple(values), "H": (values[0], y), "V": (x, values[0])}[command])
    return points


def height(points, x):
    """The y of the level piece over x."""
    [y] = {b for (a, b), (c, d) in pairwise(points) if b == d and a < x < c}
    return y


@pytest.fixture
def two_seeds(make_run, make_record):
    """A block of standard accuracies 1/2 and 1."""
    better = [[make_record(index, 1, 1, radius / 255) for index, radius in enumerate((0.6, 1.7, 2.9, 4.2))]]
    runs = load_runs([make_run("a"), make_run("b", seed=1, shards=better)])
    return make_table(make_sections(runs)).blocks[0]


def test_a_line_is_nowhere_above_the_certified_accuracy_and_not_far_below(two_seeds):
    [series] = curve_chart(two_seeds).series
    points, answers = corners(series.line), two_seeds.rows[0].group.outcomes(two_seeds.bound)
    limit = largest_radius([two_seeds])
    half = 0.5 / (BOTTOM - TOP)  # of a pixel

    def certified(x):
        return np.mean([certified_accuracy(one, limit * (x - LEFT) / (RIGHT - LEFT)) for one in answers])

    for x in np.arange(LEFT, RIGHT, 0.25) + 0.125:
        drawn = (BOTTOM - height(points, x)) / (BOTTOM - TOP)
        assert certified(x + 2) - half <= drawn <= certified(x) + half


def test_a_band_is_the_sample_deviation_around_the_line(two_seeds):
    [series] = curve_chart(two_seeds).series
    first, *_, last = corners(series.band)
    assert first == (LEFT, TOP)
    assert last == (LEFT, round(BOTTOM - (BOTTOM - TOP) * (0.75 - 0.5 / 2**0.5)))


@pytest.mark.parametrize(
    ("means", "paper", "ticks"),
    [
        ((0.65, 0.60), (), ["50", "55", "60", "65", "70"]),
        ((0.65, 0.48), (), ["40", "50", "60", "70"]),
        ((0.746, 0.712), (), ["70", "75", "80"]),
        ((0.42, 0.58), ((32, 91.0),), ["40", "60", "80", "100"]),
        ((0.02, 0.99), (), ["0", "20", "40", "60", "80", "100"]),
    ],
)
def test_an_axis_holds_all_that_is_shown(means, paper, ticks):
    ours = {k: Spread((mean,)) for k, mean in zip((32, 64), means, strict=True)}
    chart = trend_chart([Trend("cohen", ours, paper)])
    assert [text for _, text in chart.y_ticks] == ticks
    [series] = chart.series
    low, high = int(ticks[0]), int(ticks[-1])
    for (_, y, *_), mean in zip(series.points, means, strict=True):
        assert y == round(BOTTOM - (BOTTOM - TOP) * (100 * mean - low) / (high - low))
    assert all(TOP <= y <= BOTTOM for _, y in series.hollow)


def test_bars_are_within_the_axis():
    chart = trend_chart([Trend("cohen", {32: Spread((0.48, 0.62))})])
    [(_, y, low, high)] = chart.series[0].points
    assert TOP < high < y < low < BOTTOM


def test_votes_are_shown_of_those_that_have_one(tmp_path):
    for method, k, voted in [("cohen", 32, True), ("cohen", 64, True), ("adaptive", 32, True), ("adaptive", 64, False)]:
        build_cell(tmp_path / "fast", method=method, k=k, voted=voted)
    build_cell(tmp_path / "fast", method="static_mask", voted=False)
    entries = make_entries(load_cells(tmp_path))
    assert [(trend.method, sorted(trend.ours)) for trend in vote_trends(entries)] == [
        ("cohen", [32, 64]),
        ("adaptive", [32]),
    ]
    assert {trend.method for trend in make_trends(entries)} == {"cohen", "static_mask", "adaptive"}
    accuracies = {(entry.first.method, entry.first.k): entry.votes.mean for entry in entries if entry.votes.values}
    assert vote_trends(entries)[0].ours[64].mean == accuracies["cohen", 64]


def test_the_paper_stands_only_beside_what_was_run(tmp_path):
    for method, k in [("cohen", 32), ("cohen", 64), ("sukenik", 64)]:
        build_cell(tmp_path / "fast", method=method, k=k)
    cohen, sukenik = make_trends(make_entries(load_cells(tmp_path)))
    assert {k for k, _ in cohen.paper} == {32, 64}
    assert [accuracy for k, accuracy in cohen.paper if k == 64] == [61.6, 63.0]  # its tables differ
    assert (sukenik.method, sukenik.paper) == ("sukenik", ((64, 45.1),))
    circles = [series.hollow for series in trend_chart([cohen, sukenik]).series]
    assert list(map(len, circles)) == [len(cohen.paper), 1]


STARTED = {"train": {"epochs": 24}, "start": {"size": 32, "epochs": 16, "through": [64]}}


def test_what_differs_between_sizes_is_told_from_records_and_recipes(tmp_path):
    for k, draws in [(32, 1000), (48, 1000), (64, 2000), (96, 1000)]:
        build_cell(tmp_path / "fast", k=k, draws=draws, training=STARTED)
    build_cell(tmp_path / "fast", k=96, method="cohen", training=STARTED)
    entries = make_entries(load_cells(tmp_path))
    assert draws_by_size(entries) == "1,000 at k = 32 and 48; 2,000 at k = 64; 1,000 or 2,000 at k = 96"
    assert epochs_by_size(entries) == "24 at k = 32; 16 + 24 at k = 48 and 64; 16 + 24 + 24 at k = 96"
    above = draw_by_size(entries).svg.decode()
    assert "draws an image: 1,000 at k = 32 and 48" in above
    assert "epochs of training, those on smaller images first: 24 at k = 32" in above


def test_lines_join_only_sizes_that_were_trained_equally_long(tmp_path):
    for k in (32, 48, 64, 96):
        build_cell(tmp_path / "fast", k=k, training=STARTED)
    entries = make_entries(load_cells(tmp_path))
    for trends in (make_trends(entries), vote_trends(entries)):
        assert trends[0].alike == [[32], [48, 64], [96]]
        [series] = trend_chart(trends).series
        places = [f"{x} {y}" for x, y, *_ in series.points]
        assert series.line == f"M{places[0]}M{places[1]}L{places[2]}M{places[3]}"
    for panel in draw_by_size(entries).figure.axes:
        line = panel.containers[0].lines[0]
        gaps = np.isnan(line.get_xdata().astype(float))
        assert np.flatnonzero(gaps).tolist() == [1, 4, 6]


def test_the_figure_says_what_the_choice_of_images_leaves(tmp_path):
    for k in (32, 64):
        build_cell(tmp_path / "fast", k=k, images=40)
    entries = make_entries(load_cells(tmp_path))
    above = [panel.texts[0].get_text().replace("\n", " ") for panel in draw_by_size(entries).figure.axes]
    for text, (accuracies, images) in zip(above, [
        ([entry.certified("cohen", 0.0).mean for entry in entries], 40),
        ([entry.votes.mean for entry in entries], 10_000),
    ], strict=True):  # fmt: skip
        error = max((accuracy * (1 - accuracy) / images) ** 0.5 for accuracy in accuracies)
        assert text.endswith(f"the choice of images leaves a standard error of up to {100 * error:.1f} points")


@pytest.mark.parametrize(
    "training", [None, STARTED | {"start": None}, STARTED | {"classifier": {"from_run": "runs/c"}}]
)
def test_sizes_that_differ_in_nothing_else_are_said_nothing_about(tmp_path, training):
    for k in (32, 96):
        build_cell(tmp_path / "fast", k=k, training=training)
    entries = make_entries(load_cells(tmp_path))
    assert (draws_by_size(entries), epochs_by_size(entries)) == ("", "")


def test_bars_are_told_of_where_there_are_several_seeds(tmp_path):
    for name, seeds in (("one", [0]), ("two", [0, 1])):
        for k, seed in [(32, 0), *((64, seed) for seed in seeds)]:
            build_cell(tmp_path / name / "fast", k=k, seed=seed, draws=1000 * k, training=STARTED)
        write_results(tmp_path / name, tmp_path / name)
        [figure] = (tmp_path / name / "figures").glob("accuracy-by-k-*.svg")
        assert figure.read_text().count("bars: one standard deviation over the seeds") == (2 if name == "two" else 0)
        page = (tmp_path / name / "index.html").read_text()
        assert page.count("bars are one standard deviation over the seeds") == (2 if name == "two" else 0)
        assert page.count("sizes differ in more than k.") == 2
        assert page.count("Draws an image: 32,000 at k = 32; 64,000 at k = 64.") == 1
        assert page.count("Epochs of training: 24 at k = 32; 16 + 24 at k = 64, those on smaller images first;") == 2
