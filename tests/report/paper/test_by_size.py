"""Accuracy against k: what is drawn and said of sizes that differ in more than k."""

import numpy as np
import pytest

from ars.report.paper.by_size import draw_by_size, draws_by_size, epochs_by_size, make_trends, vote_trends

from .conftest import build_cell, entries_of


def test_votes_are_shown_of_those_that_have_one(tmp_path):
    for method, k, voted in [("cohen", 32, True), ("cohen", 64, True), ("adaptive", 32, True), ("adaptive", 64, False)]:
        build_cell(tmp_path / "fast", method=method, k=k, voted=voted)
    build_cell(tmp_path / "fast", method="static_mask", voted=False)
    entries = entries_of(tmp_path)
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
    cohen, sukenik = make_trends(entries_of(tmp_path))
    assert {k for k, _ in cohen.paper} == {32, 64}
    assert {accuracy for k, accuracy in cohen.paper if k == 64} == {61.6, 63.0}  # its tables differ
    assert (sukenik.method, sukenik.paper) == ("sukenik", {(64, 45.1)})
    [panel, _] = draw_by_size(entries_of(tmp_path)).figure.axes
    circles = [line for line in panel.get_lines() if line.get_markerfacecolor() == "white"]
    assert [len(line.get_xdata()) for line in circles] == [len(cohen.paper), 1]


STARTED = {"train": {"epochs": 24}, "start": {"size": 32, "epochs": 16, "through": [64]}}


def test_what_differs_between_sizes_is_told_from_records_and_recipes(tmp_path):
    for k, draws in [(32, 1000), (48, 1000), (64, 2000), (96, 1000)]:
        build_cell(tmp_path / "fast", k=k, draws=draws, training=STARTED)
    build_cell(tmp_path / "fast", k=96, method="cohen", training=STARTED)
    entries = entries_of(tmp_path)
    assert draws_by_size(entries) == "1,000 at k = 32 and 48; 2,000 at k = 64; 1,000 or 2,000 at k = 96"
    assert epochs_by_size(entries) == "24 at k = 32; 16 + 24 at k = 48 and 64; 16 + 24 + 24 at k = 96"
    above = draw_by_size(entries).figure.axes[0].texts[0].get_text().replace("\n", " ")
    assert "draws per image: 1,000 at k = 32 and 48" in above
    assert "epochs of training, those on smaller images first: 24 at k = 32" in above


def test_lines_join_only_sizes_that_were_trained_equally_long(tmp_path):
    for k in (32, 48, 64, 96):
        build_cell(tmp_path / "fast", k=k, training=STARTED)
    entries = entries_of(tmp_path)
    for trends in (make_trends(entries), vote_trends(entries)):
        assert trends[0].alike == [[32], [48, 64], [96]]
    for panel in draw_by_size(entries).figure.axes:
        line = panel.containers[0].lines[0]
        gaps = np.isnan(line.get_xdata().astype(float))
        assert np.flatnonzero(gaps).tolist() == [1, 4, 6]


@pytest.mark.parametrize(
    "training", [None, STARTED | {"start": None}, STARTED | {"classifier": {"from_run": "runs/c"}}]
)
def test_sizes_that_differ_in_nothing_else_are_said_nothing_about(tmp_path, training):
    for k in (32, 96):
        build_cell(tmp_path / "fast", k=k, training=training)
    entries = entries_of(tmp_path)
    assert (draws_by_size(entries), epochs_by_size(entries)) == ("", "")
