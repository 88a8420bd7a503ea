"""The live views of certifications and trainings, with and without a terminal."""

import dataclasses
from types import SimpleNamespace

import pytest

from ars.cli import views
from ars.cli.views import (
    certification_view,
    describe,
    describe_epoch,
    describe_forecast,
    describe_step,
    describe_workers,
    duration,
    open_view,
)
from ars.training.progress import Progress as Epoch
from ars.training.progress import Standing
from ars.workflows.forecast import Forecast
from ars.workflows.request import Progress

AT = Progress(total=200, done=40, fresh=20, draws=50_000, seconds=2.0, right=30, radii=40 * 1.501 / 255)
STEP = Standing(2, 7, 70, 700, 1.234, 0.567, 12345.6, 75.0)
EPOCH = Epoch(2, 7, 1.234, 0.567, 0.5, 0.25, 0.5, 12345.6, 17.6)


@pytest.mark.parametrize(
    ("at", "norm", "words"),
    [
        (AT, "linf", "certified 75%, average radius 1.50/255, 25,000 draws/s, 16 s left"),
        (AT, "l2", "certified 75%, average radius 0.0058, 25,000 draws/s, 16 s left"),
        (AT, None, "certified 75%, 25,000 draws/s, 16 s left"),
        (dataclasses.replace(AT, drawn=500, at_most=1_000), None, "25,000 draws/s, 500 of up to 1,000 draws"),
        (Progress(total=8), "linf", "first shard"),
        (Progress(total=8, done=4, right=2), "linf", "certified 50%, average radius 0.00/255"),
        (Progress(total=8, drawn=1_200, at_most=10_200), "linf", "1,200 of up to 10,200 draws"),
    ],
)
def test_a_certification_says_how_far_it_is_how_good_and_how_fast(at, norm, words):
    assert words in describe(at, norm)


def test_workers_and_what_they_do_are_listed_up_to_a_number():
    at = dataclasses.replace(AT, drawn=500, at_most=1_000, workers=("worker 1 (node): shard 3, 500 draws",))
    assert "500 of up to 1,000 draws of the shards in flight" in describe(at, None)
    assert describe_workers(at.workers) == "\n  worker 1 (node): shard 3, 500 draws"
    assert describe_workers(["a"] * 20).splitlines()[-2:] == ["  a", "  and 4 more workers"]


def test_a_forecast_has_a_line_for_each_number_of_gpus():
    text = describe_forecast(Forecast((1800.0,) * 4), [1, 3], unit="GPU", price=3.0)
    assert [line.split() for line in text.splitlines()] == [
        ["GPUs", "wall", "time", "GPU-hours", "price"],
        ["1", "2", "h", "0", "min", "2.00", "6.00"],
        ["3", "1", "h", "0", "min", "3.00", "9.00"],  # two GPUs wait for the last piece
    ]
    assert "price" not in describe_forecast(Forecast((1800.0,)), [1], unit="GPU", price=None)


def test_a_training_says_the_same_of_its_steps_and_epochs():
    assert describe_step(STEP) == "epoch 2 of 7, loss 1.23, accuracy 57%, 12,346 images/s, 1 min 15 s left"
    assert describe_epoch(EPOCH) == (
        "epoch 2 of 7: loss 1.23, accuracy 57%, validation 50%, mask 0.25, 12,346 images/s after 18 s of start-up"
    )
    assert duration(3599.5) == "1 h 0 min"


@pytest.mark.parametrize(("shown", "lines"), [(True, [40, 70, 200]), (False, [200])])
def test_without_a_terminal_there_is_a_line_every_ten_seconds_and_one_at_the_end(capsys, monkeypatch, shown, lines):
    clock = SimpleNamespace(now=99.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(views, "time", clock)
    with certification_view("run", norm="linf", shown=shown) as show:
        for done, clock.now in ((40, 100.0), (60, 109.0), (70, 110.5), (200, 111.0)):
            show(dataclasses.replace(AT, done=done))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.split(",")[0] for line in printed.err.splitlines()] == [f"run: {done} of 200 images" for done in lines]


def test_a_terminal_gets_a_bar_and_the_lines_that_are_said(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    with open_view("runs/[a]", "starting") as view:
        view.update(70, 700, "a line", describe_step(STEP))
        view.say(describe_epoch(EPOCH))
    shown = capsys.readouterr().err
    assert "runs/[a]: epoch 2 of 7: loss 1.23" in shown
    assert "70/700" in shown
    assert "1 min 15 s left" in shown
    assert "a line" not in shown
