import dataclasses

import pytest
import torch
from PIL import Image

from ars.tensors import load_tensors
from ars.workflows.pictures import draw_epoch
from ars.workflows.train import train_run

from ..conftest import CPU, TINY

EVERY_EPOCH = dataclasses.replace(TINY.train, pictures_every=1)


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
