"""Charts of accuracy against k: their axes, and votes beside certified accuracies."""

import pytest

from ars.report.archive.by_size import Trend, make_trends, vote_trends
from ars.report.archive.cells import load_cells
from ars.report.archive.charts import BOTTOM, TOP, trend_chart
from ars.report.archive.entries import make_entries
from ars.report.measures import Spread

from .conftest import build_cell


@pytest.mark.parametrize(
    ("means", "paper", "ticks"),
    [
        ((0.65, 0.60), {}, ["50", "55", "60", "65", "70"]),
        ((0.65, 0.48), {}, ["40", "50", "60", "70"]),
        ((0.746, 0.712), {}, ["70", "75", "80"]),
        ((0.42, 0.58), {32: 91.0}, ["40", "60", "80", "100"]),
        ((0.02, 0.99), {}, ["0", "20", "40", "60", "80", "100"]),
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
    chart = trend_chart([Trend("cohen", {32: Spread((0.48, 0.62))}, {})])
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
