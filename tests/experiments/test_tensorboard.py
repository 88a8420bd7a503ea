import pytest

from ars.experiments.tensorboard import scalars
from ars.training.progress import Progress


def progress(epoch, loss):
    return Progress(epoch, 3, loss, 0.5, 0.4, 0.25, None, 100.0, None)  # one step has no share


def test_epochs_become_curves_and_those_done_again_replace_the_old(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for epochs in ([(1, 2.0), (2, 1.5)], [(2, 1.25), (3, 1.0)]):  # interrupted after the second epoch was written
        with scalars(tmp_path) as write:
            for epoch, loss in epochs:
                write(progress(epoch, loss))
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 2.0), (2, 1.25), (3, 1.0)]
    assert "epoch" not in events.Tags()["scalars"]
    assert "validation_accuracy" in events.Tags()["scalars"]


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("ars.experiments.tensorboard.find_spec", lambda name: None)
    with scalars(tmp_path) as write:
        write(progress(1, 2.0))
    assert list(tmp_path.iterdir()) == []
