"""TensorBoard curves and pictures of the masks during a training."""

import dataclasses

import pytest
import torch
from PIL import Image

from ars.tensors import load_tensors
from ars.training.progress import Progress
from ars.workflows.train import train_run
from ars.workflows.watch import draw_epoch, scalars

from ..conftest import CPU, TINY

EVERY_EPOCH = dataclasses.replace(TINY.train, pictures_every=1)


def progress(epoch, loss):
    return Progress(epoch, 3, loss, 0.5, 0.4, 0.25, None, 100.0, None)  # a method with one step has no share


def test_epochs_become_curves_and_repeated_epochs_replace_the_old_ones(tmp_path):
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
    monkeypatch.setattr("ars.workflows.watch.find_spec", lambda name: None)
    with scalars(tmp_path) as write:
        write(progress(1, 2.0))
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_drawn_and_changes_no_weight(trained, tiny, tmp_path):
    run = tmp_path / "run"
    assert train_run(tiny(train=EVERY_EPOCH), run, device=CPU)
    assert [path.name for path in (run / "masks").iterdir()] == ["epoch-001.png"]
    with Image.open(run / "masks" / "epoch-001.png") as picture:
        assert picture.width > picture.height > 500
        assert len(picture.convert("RGB").getcolors(10**6)) > 100
    assert not (trained / "masks").exists()  # its recipe draws every five epochs, and has one
    assert (run / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_picture_shows_the_average_that_is_kept_and_leaves_it_as_it_is(tiny, tmp_path, monkeypatch):
    shown = []

    def watched(folder, model, *others, **options):
        draw_epoch(folder, model, *others, **options)
        shown.append({name: tensor.clone() for name, tensor in model.state_dict().items()})

    monkeypatch.setattr("ars.workflows.train.draw_epoch", watched)
    for every in (0, 1):
        settings = dataclasses.replace(TINY.train, epochs=2, ema=0.5, pictures_every=every)
        assert train_run(tiny(train=settings), tmp_path / f"every-{every}", device=CPU)
    kept = [load_tensors(tmp_path / f"every-{every}" / "model.safetensors")[0] for every in (0, 1)]
    for name, tensor in kept[0].items():
        assert torch.equal(tensor, kept[1][name]), name
        assert torch.equal(tensor, shown[-1][name]), name


def test_a_method_without_a_mask_has_no_picture(tiny, tmp_path):
    assert train_run(tiny(method="cohen", train=EVERY_EPOCH), tmp_path / "run", device=CPU)
    assert not (tmp_path / "run" / "masks").exists()
