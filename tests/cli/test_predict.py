"""ars predict on image files: radii in 1/255, votes, abstentions, masks as pictures."""

import json
from fractions import Fraction

import numpy as np
import pytest
import torch
from PIL import Image

from ars.cli import main
from ars.cli.predict import mask_paths
from ars.experiments.run import load_run
from ars.experiments.stages import average_masks, fit_image

FEW = ["--n-select=20", "--n-estimate=40", "--precision=float32", "--device=cpu"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    tiny = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256", "--train.epochs=1",
            "--train.precision=float32", "--device=cpu"]  # fmt: skip
    for method in ("adaptive", "cohen"):
        assert main(["train", "--out", str(folder / method), "--method", method, *tiny]) == 0
    return folder


def picture(path, width=24, height=24, seed=0):
    path.parent.mkdir(exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_masks_are_saved_beside_the_answer_and_inputs_stay_as_they_are(trained, tmp_path, capsys):
    images = [picture(tmp_path / "a" / "x.png"), picture(tmp_path / "b" / "x.png", seed=1)]
    before = [image.read_bytes() for image in images]
    masks = tmp_path / "a"
    command = ["predict", str(trained / "adaptive"), *map(str, images), "--masks", str(masks), "--json", *FEW]
    assert main(command) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["masks"] for answer in answers] == [[str(masks / "x-mask.png")], [str(masks / "x-2-mask.png")]]
    assert [image.read_bytes() for image in images] == before
    for answer in answers:
        assert Fraction(answer["radius_255"]) <= 255 * Fraction(answer["radius"])
        assert answer["radius_255"] == pytest.approx(255 * answer["radius"])
        assert sum(answer["votes"].values()) == 40
    # against the model itself: the mean of the mask over single draws
    _, _, model = load_run(trained / "adaptive", torch.device("cpu"))
    image = torch.from_numpy(np.array(Image.open(images[0]))).permute(2, 0, 1)[None].float() / 255
    draws = [model.stages(image, torch.Generator().manual_seed(seed))[0][1].weight for seed in range(100)]
    saved = np.asarray(Image.open(masks / "x-mask.png")).astype(float)
    assert saved.shape == (24, 24)
    assert np.allclose(saved / 255, torch.cat(draws).mean(dim=(0, 1)).numpy(), atol=0.02)


def test_a_mask_never_overwrites_an_input(trained, tmp_path, capsys):
    image, other = picture(tmp_path / "x.png"), picture(tmp_path / "x-mask.png")
    before = other.read_bytes()
    command = ["predict", str(trained / "adaptive"), str(image), str(other), "--masks", str(tmp_path), *FEW]
    assert main(command) == 2
    assert "would overwrite the image" in capsys.readouterr().err
    assert other.read_bytes() == before
    assert not (tmp_path / "x-mask-mask.png").exists()


def test_several_masked_steps_get_a_file_each(tmp_path):
    (paths,) = mask_paths([tmp_path / "x.png"], tmp_path / "m", 2)
    assert [path.name for path in paths] == ["x-mask-1.png", "x-mask-2.png"]


def test_names_that_would_meet_are_kept_apart(tmp_path):
    images = [tmp_path / "a" / "x.png", tmp_path / "b" / "x.png", tmp_path / "x-2.png", tmp_path / "c" / "x.jpg"]
    names = [path.name for (path,) in mask_paths(images, tmp_path / "m", 1)]
    assert len(set(names)) == 4


def test_a_model_without_a_mask_says_so(trained, tmp_path, capsys):
    image = picture(tmp_path / "x.png")
    masks = ["--masks", str(tmp_path / "m")]
    assert main(["predict", str(trained / "cohen"), str(image), *masks, *FEW]) == 2
    assert "has no mask to save; leave --masks out" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
    _, _, model = load_run(trained / "cohen", torch.device("cpu"))
    assert average_masks(model, torch.rand(3, 24, 24), seed=0) == []


def test_an_image_is_resized_only_if_asked(trained, tmp_path, capsys):
    image = picture(tmp_path / "x.png", width=50, height=31)
    command = ["predict", str(trained / "cohen"), str(image), *FEW]
    assert main(command) == 2
    assert "is 50x31, the model takes 24x24; resize it first, or with --resize" in capsys.readouterr().err
    assert main([*command, "--resize"]) == 0
    assert capsys.readouterr().out.startswith(f"{image}: ")


@pytest.mark.parametrize("shape", [(24, 24), (48, 48), (31, 50), (7, 90), (1, 1)])
def test_fitting_covers_the_size_and_keeps_the_middle(shape):
    image = torch.rand(3, *shape)
    fitted = fit_image(image, (24, 24))
    assert fitted.shape == (3, 24, 24)
    assert 0 <= fitted.min() <= fitted.max() <= 1
    if shape == (24, 24):
        assert torch.equal(fitted, image)
    mirrored = fit_image(image.flip(2), (24, 24))
    if shape[1] % 2 == 0 and shape[0] == shape[1]:
        assert torch.allclose(mirrored.flip(2), fitted, atol=1e-5)


def test_a_certified_label_has_its_radius_in_255ths_and_an_abstention_none(trained, tmp_path, capsys):
    image = picture(tmp_path / "x.png")
    for norm in ("linf", "l2"):
        assert main(["predict", str(trained / "cohen"), str(image), *FEW, "--norm", norm]) == 0
        line = capsys.readouterr().out
        if "abstains" not in line:
            assert f"/255 in {norm} (" in line
        assert " votes for " in line


def test_the_stopping_modes_hold_for_predictions_too(trained, tmp_path, capsys):
    image = picture(tmp_path / "a.png")
    few = ["--n-select=20", "--n-estimate=300", "--precision=float32", "--device=cpu", "--json"]
    assert main(["predict", str(trained / "cohen"), str(image), *few, "--mode", "curve", "--radii", "0", "1/255"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["radius"] in (0, 1 / 255)  # only what was asked for can be certified
    assert main(["predict", str(trained / "cohen"), str(image), *few, "--radii", "1/255"]) == 2
    assert "mode='curve' needs radii" in capsys.readouterr().err
