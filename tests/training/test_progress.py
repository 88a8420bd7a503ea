import json

from ars.training.progress import Pace, Progress, write_log


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
