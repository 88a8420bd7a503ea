import pytest

from ars.cli import training_view as views
from ars.cli.training_view import training_view
from ars.training.progress import Progress, Standing


def standing(step):
    return Standing(2, 7, step, 700, 1.234, 0.567, 12345.6, 75.0)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(views, "time", clock)
    return clock


def test_without_a_terminal_there_is_a_line_in_ten_seconds_and_one_an_epoch(capsys, clock):
    with training_view("runs/a") as show:
        for step, clock.now in ((1, 100.0), (2, 109.0), (3, 110.5)):
            show.watch(standing(step))
        show.report(Progress(2, 7, 1.234, 0.567, 0.5, 0.25, 0.5, 12345.6, 17.6))
    shown = capsys.readouterr()
    where = "epoch 2 of 7, loss 1.23, accuracy 57%, 12,346 images/s, 1 min 15 s left"
    assert shown.out == ""
    assert shown.err.splitlines() == [
        f"runs/a: step 1 of 700, {where}",
        f"runs/a: step 3 of 700, {where}",
        "runs/a: epoch 2 of 7: loss 1.23, accuracy 57%, validation 50%, mask 0.25, 12,346 images/s "
        "after 18 s of start-up",
    ]


def test_a_terminal_gets_a_bar_and_a_line_an_epoch(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    with training_view("runs/[a]") as show:
        show.watch(standing(70))
        show.report(Progress(2, 7, 1.234, 0.567, 0.5, 0.25, 0.5, 12345.6, 17.6))
    shown = capsys.readouterr().err
    assert "runs/[a]: epoch 2 of 7: loss 1.23" in shown
    assert "70/700" in shown
    assert "1 min 15 s left" in shown
