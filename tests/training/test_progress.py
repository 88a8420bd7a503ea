import itertools
import json

import pytest
import torch

from ars.training.progress import NEVER, Meetings, Pace, Progress, Tally, write_log
from ars.training.ranks import Ranks


def test_the_start_up_is_counted_apart_and_told_once(clock):
    pace = Pace(100, steps=200, batch_size=10, slow=3)
    pace.begin_epoch(100)
    clock.now = 40.0
    assert pace.read(102) == (0.5, 98 * 20)  # two steps in 40 s
    assert pace.start_up is None
    clock.now = 60.0
    pace.read(104)
    assert pace.start_up == 60.0
    clock.now = 62.0
    assert pace.read(108) == (20.0, 46.0)
    assert pace.start_up == 60.0
    clock.now = 65.0
    pace.begin_epoch(110)
    clock.now = 70.0
    assert pace.read(120) == (20.0, 40.0)
    assert pace.start_up is None


def test_the_log_has_one_line_of_an_epoch_that_was_done_again(tmp_path):
    """After a kill, training goes on from a checkpoint that is older than the log."""
    path = tmp_path / "train.jsonl"
    for epoch, loss in ((1, 2.3), (2, 2.2), (3, 2.1), (2, 2.0)):
        write_log(path, Progress(epoch, 3, loss, 0.1, 0.1, 0.25, 0.5, 100.0, None))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["epoch"], line["loss"]) for line in lines] == [(1, 2.3), (2, 2.0)]


def make_meetings(ranks=None, save_seconds=300.0):
    return Meetings(ranks or Ranks(), Tally(torch.device("cpu")), step=0, save_seconds=save_seconds)


@pytest.mark.parametrize("seconds_a_step", [1e-4, 0.03, 2.0])
def test_the_device_is_asked_about_once_a_second(clock, seconds_a_step):
    meetings, held, steps = make_meetings(), [], 100_000
    for step in range(1, steps + 1):
        clock.now += seconds_a_step
        if meetings.due(step, lambda: False):
            meetings.hold(step, stop=False)
            held.append(step)
    assert held[0] == 1
    gaps = [(after - before) * seconds_a_step for before, after in itertools.pairwise(held)]
    assert max(gaps) <= max(1.0, seconds_a_step) * 1.001
    assert len(held) <= steps * seconds_a_step / max(0.9, seconds_a_step) + 20


def test_one_process_stops_at_once(clock):
    meetings = make_meetings()
    clock.now = 1e-3
    meetings.hold(1, stop=False)
    assert not meetings.due(2, lambda: False)
    assert meetings.due(2, lambda: True)
    assert meetings.hold(2, stop=True).stop


def test_saving_is_due_after_so_many_seconds(clock):
    meetings = make_meetings(save_seconds=300)
    answers = []
    for step, clock.now in enumerate((100.0, 299.0, 301.0, 302.0, 602.0), start=1):
        answers.append(meetings.hold(step, stop=False).save)
    assert answers == [False, False, True, False, True]


def test_any_rank_stops_all_the_first_says_when_and_the_first_bad_step_of_all_is_named(clock):
    class Three(Ranks):
        size = 3

        def gather(self, values):
            loss, accuracy, bad, *_ = values
            return [[loss, accuracy, bad, 0, 1, 7], [loss + 3, accuracy, 4, 1, 0, 1], [loss + 6, accuracy, 9, 0, 0, 1]]

    meetings = make_meetings(Three())
    meetings.tally.add(torch.tensor(2.0), torch.tensor(0.5), step=1)
    decision = meetings.hold(1, stop=False)
    assert (decision.loss, decision.accuracy) == (5.0, 0.5)
    assert (decision.first_bad, decision.stop, decision.save) == (4, True, True)
    assert meetings.tally.read() == (5.0, 0.5, NEVER)  # so that every rank saves, and goes on from, the same
    assert [meetings.due(step, lambda: True) for step in (7, 8)] == [False, True]
