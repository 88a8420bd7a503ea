import dataclasses

from PIL import Image

from ars.experiments.run import train_run

from .conftest import CPU, TINY

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


def test_a_method_without_a_mask_has_none_to_show(tiny, tmp_path):
    assert train_run(tiny(method="cohen", train=EVERY_EPOCH), tmp_path / "run", device=CPU)
    assert not (tmp_path / "run" / "masks").exists()
