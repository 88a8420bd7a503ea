"""ars predict on image files: radii in the units of their norm, votes, abstentions, masks as pictures."""

import errno
import json
import os
import shutil
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import ars
from ars.certification.certifier import Certifier
from ars.certification.settings import Schedule
from ars.cli.main import main
from ars.cli.predict import mask_paths
from ars.data.benchmark import open_benchmark
from ars.data.image_files import read_image
from ars.data.settings import Data
from ars.workflows.load import load_run

from ..conftest import CPU, contents
from ..runs.conftest import build_record
from .conftest import FOLDER, QUICK, fill, picture

CERTIFICATE = replace(
    build_record(0, 1, 1, 0.01999).certificate, counts=(10, 30, *8 * [0]), select_counts=(0, 1, *8 * [0]),
    schedule=Schedule("fixed", 40), planned=40, radius=0.01999, radii={"cohen": 0.01999},
)  # fmt: skip
ABSTENTION = {"label": None, "radius": 0.0, "radii": {"cohen": 0.0}}


@pytest.fixture
def line(cohen):
    """The command that predicts with the run without a mask, or another."""
    return lambda *options, run=cohen: ["predict", str(run), *map(str, options), *QUICK]


@pytest.fixture
def predict(line, printed):
    """Predict; the answers."""

    def call(*options, **run):
        return [json.loads(answer) for answer in printed([*line(*options, **run), "--json"]).out.splitlines()]

    return call


@pytest.fixture
def told(line, predict, printed, monkeypatch):
    """What is said and written of a certificate."""

    def call(image, *options, **changes):
        monkeypatch.setattr(Certifier, "__call__", lambda *_: [replace(CERTIFICATE, **changes)])
        said = printed(line(image, *options, "--seed=0")).out
        return said.removeprefix(f"{image}: ").rstrip("\n"), *predict(image, *options, "--seed=0")

    return call


def test_an_answer_has_the_label_the_radius_and_the_votes(predict, tmp_path):
    [answer] = predict(picture(tmp_path / "a.png"))
    assert answer["file"] == str(tmp_path / "a.png")
    assert sum(answer["votes"].values()) == answer["draws"] == 60
    assert (answer["label"] is None) == (answer["radius"] == 0)
    assert (answer["seen"], answer["resized"], answer["converted"]) == ([24, 24], False, "")
    assert Fraction(answer["radius_255"]) <= 255 * Fraction(answer["radius"])
    assert answer["radius_255"] == pytest.approx(255 * answer["radius"])


@pytest.mark.parametrize(
    ("width", "height", "fitted"),
    [(24, 24, ""), (50, 50, ", as resized to 24x24"), (50, 31, ", as resized and cropped to 24x24")],
)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "1, certified within 5.097/255 in linf"),
        ({"norm": "l2"}, "1, certified within 0.019 in l2"),
        ({"schedule": Schedule("curve", 40, radii=(1 / 255, 2 / 255)), "ended": "certified", "radius": 2 / 255,
          "radii": {"cohen": 2 / 255}}, "1, certified within 2.000/255 in linf"),
        (ABSTENTION, "abstains"),
    ],
)  # fmt: skip
def test_a_radius_is_in_the_units_of_its_norm_and_for_the_image_as_resized(
    told, tmp_path, width, height, fitted, changes, words
):
    said, written = told(picture(tmp_path / "x.png", width, height), "--resize", **changes)
    assert said == f"{words}{fitted} (30 votes for 1, 10 votes for 0)"
    assert (written["seen"], written["resized"]) == ([24, 24], fitted != "")
    assert written["radius"] == changes.get("radius", CERTIFICATE.radius)
    assert ("radius_255" in written) == (changes.get("norm") != "l2")


@pytest.mark.parametrize(("side", "words"), [(24, ""), (50, " and resized to 24x24")])
def test_an_answer_says_that_the_values_of_the_file_were_converted(told, tmp_path, side, words):
    said, written = told(picture(tmp_path / "x.png", side, side, channels=4), "--resize")
    assert f", as put on white{words} (" in said
    assert (written["converted"], written["resized"]) == ("put on white", words != "")


def test_an_image_of_another_size_or_no_image_is_refused(refused, line, tmp_path):
    assert "is 50x31, but the model takes 24x24" in refused(line(picture(tmp_path / "a.png", 50, 31)))
    assert "none.png" in refused(line(tmp_path / "none.png"))
    assert f"{tmp_path} is a folder" in refused(line(tmp_path))
    assert "--radii" in refused(line(picture(tmp_path / "b.png"), "--radii", "1/255"))


def test_masks_are_saved_beside_the_answer_and_inputs_stay_as_they_are(trained, tmp_path, predict):
    images = [picture(tmp_path / "a" / "x.png"), picture(tmp_path / "b" / "x.png", seed=1)]
    before, masks = [image.read_bytes() for image in images], tmp_path / "a"
    answers = predict(*images, "--masks", masks, run=trained)
    assert [answer["masks"] for answer in answers] == [[str(masks / "x-mask.png")], [str(masks / "x-2-mask.png")]]
    assert [image.read_bytes() for image in images] == before
    # against the model itself: the mean of the mask over single draws
    _, _, model = load_run(trained, CPU)
    image = torch.from_numpy(np.array(Image.open(images[0]))).permute(2, 0, 1)[None].float() / 255
    draws = [model.stages(image, torch.Generator().manual_seed(seed))[0][1].weight for seed in range(100)]
    saved = np.asarray(Image.open(masks / "x-mask.png")).astype(float)
    assert saved.shape == (24, 24)
    assert np.allclose(saved / 255, torch.cat(draws).mean(dim=(0, 1)).numpy(), atol=0.02)


@pytest.mark.slow
def test_masks_have_noise_of_the_calls_seed(trained, tmp_path, predict):
    image, made = picture(tmp_path / "x.png"), []
    for seed in (3, 3, 4):
        predict(image, "--masks", tmp_path, f"--seed={seed}", run=trained)
        made.append(np.asarray(Image.open(tmp_path / "x-mask.png")).tolist())
    assert made[0] == made[1] != made[2]


def test_a_full_disk_leaves_the_old_mask(trained, tmp_path, refused, line, monkeypatch):
    image, old = picture(tmp_path / "x.png"), picture(tmp_path / "m" / "x-mask.png")
    before = old.read_bytes()

    def full(picture, file, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Image.Image, "save", full)
    assert f"{old}: No space left on device" in refused(line(image, "--masks", tmp_path / "m", run=trained))
    assert old.read_bytes() == before


def test_a_mask_never_overwrites_an_input_or_another_mask(trained, tmp_path, refused, line):
    images = [picture(tmp_path / "x.png"), picture(tmp_path / "x-mask.png")]
    before = contents(tmp_path)
    assert "overwrite" in refused(line(*images, "--masks", tmp_path, run=trained))
    assert contents(tmp_path) == before
    (paths,) = mask_paths([tmp_path / "x.png"], tmp_path / "m", 2)
    assert [path.name for path in paths] == ["x-mask-1.png", "x-mask-2.png"]
    images = [tmp_path / "a" / "x.png", tmp_path / "b" / "x.png", tmp_path / "x-2.png", tmp_path / "c" / "x.jpg"]
    assert len({path.name for (path,) in mask_paths(images, tmp_path / "m", 1)}) == 4


def test_a_model_without_a_mask_says_so(tmp_path, refused, line):
    assert "no mask" in refused(line(picture(tmp_path / "x.png"), "--masks", tmp_path / "m"))
    assert not (tmp_path / "m").exists()


def test_the_stopping_modes_hold_for_predictions_too(predict, tmp_path):
    [answer] = predict(picture(tmp_path / "a.png"), "--n-estimate=300", "--mode", "curve", "--radii", "0", "1/255")
    assert answer["radius"] in (0, 1 / 255)  # only what was asked for can be certified


def test_every_call_draws_noise_that_nobody_knew_and_a_seed_repeats_it(predict, tmp_path):
    """An image that was optimised for known noise may get a false certificate."""
    images = [picture(tmp_path / name, seed=number) for number, name in enumerate(("a.png", "b.png"))]
    calls = [predict(*images) for _ in range(3)]
    assert len({call[0]["seed"] for call in calls}) == 3
    for call in calls:
        assert [answer["seed"] for answer in call] == [call[0]["seed"]] * 2
        assert [answer["index"] for answer in call] == [0, 1]  # each image has its own noise
        assert 0 <= call[0]["seed"] < 2**32
        assert predict(*images, f"--seed={call[0]['seed']}") == call


def test_a_fresh_seed_is_told_once(line, tmp_path, printed, monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 2**bits - 1)  # the largest is one that can be drawn with
    command = line(*(picture(tmp_path / name) for name in ("a.png", "b.png")))
    fresh = printed(command)
    [told] = fresh.err.splitlines()
    assert "--seed 4294967295" in told
    assert printed([*command, "--seed=4294967295"]) == (fresh.out, "")


def test_the_seed_of_a_recipe_is_not_that_of_predictions(cohen, tmp_path, predict):
    """It stands in the run folder for everybody to read."""
    run = shutil.copytree(cohen, tmp_path / "run")
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["certify"]["seed"] = 5
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    [answer] = predict(picture(tmp_path / "a.png"), run=run)
    assert answer["seed"] != 5


def test_a_run_predicts_without_the_data_it_was_trained_on(desk, predict, refused, line):
    """Only sukenik still needs it, and says why."""
    fill(desk / "photos")
    for method in ("adaptive", "sukenik"):
        assert main(["train", "--out", method, "--method", method, "--data.root=photos", *FOLDER]) == 0
    [before] = predict(desk / "photos" / "dog" / "1.png", "--seed=0", run="adaptive")
    (desk / "photos").rename(desk / "moved")
    image = desk / "moved" / "dog" / "1.png"
    [after] = predict(image, "--masks", desk / "masks", "--seed=0", run="adaptive")
    assert before["votes"] == after["votes"]
    assert set(after["votes"]) <= {"cat", "dog"}
    assert (desk / "masks" / "1-mask.png").is_file()
    assert "sukenik" in refused(line(image, run="sukenik"))
    predict(image, "--data.root=moved", run="sukenik")


def test_a_photo_is_predicted_by_the_model_that_the_folder_was_made_with_and_by_no_other(pets, predict, refused, line):
    before, photo = contents(pets), picture(pets.parents[1] / "photo.png", 9, 12)
    own = [photo, "--resize", "--model=own_model:pets"]
    [answer] = predict(*own, run=pets)
    assert answer["alpha"] == 0.01  # as its records were made
    assert set(answer["votes"]) <= {"cat", "dog"}
    assert "own_model:pets" in refused(line(*own[:2], "--model=own_model:other", run=pets))
    bias = sys.modules["own_model"].pets[-1].bias
    bias.data.add_(1)  # trained further, say
    assert "other weights" in refused(line(*own, run=pets))
    bias.data.sub_(1)
    assert "--classifier" in refused(line(*own, "--classifier=own_model:pets", run=pets))
    assert contents(pets) == before
    (pets / "recipe.yaml").write_text("method: cohen")
    assert "leave --model out" in refused(line(*own, run=pets))


def test_an_error_in_the_users_model_is_one_sentence(pets, refused, line, monkeypatch):
    def fail(*_):
        raise KeyError("later")

    monkeypatch.setattr(Certifier, "__call__", fail)
    own = line("photos/cat/1.png", "--model=own_model:pets", run=pets)
    assert "own_model:pets failed: KeyError" in refused(own)


def test_a_prediction_tells_what_its_certificate_rests_on(pets, predict):
    """With it, the library gives the very same certificate; the next call has noise of its own."""
    files = [f"photos/{name}/{number}.png" for name in ("cat", "dog") for number in range(3)]
    calls = [predict(*files, "--model=own_model:pets", "--n-estimate=2000", run=pets) for _ in range(2)]
    assert [answer["votes"] for answer in calls[0]] != [answer["votes"] for answer in calls[1]]
    model = ars.cohen(sys.modules["own_model"].pets, sigma=0.5)
    for answer in calls[0]:
        certificate = ars.certify(
            model, read_image(Path(answer["file"])), norm=answer["norm"], n_select=20, n_estimate=answer["draws"],
            alpha=answer["alpha"], seed=answer["seed"], indices=[answer["index"]], precision=answer["precision"],
        )  # fmt: skip
        votes = dict(zip(("cat", "dog"), certificate.counts, strict=True))
        assert answer["votes"] == {name: count for name, count in votes.items() if count}
        assert answer["radius"] == certificate.radius


def test_a_pretrained_model_predicts_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    images, labels = open_benchmark(Data(), CPU).examples("test", [0])
    Image.fromarray((images[0].permute(1, 2, 0) * 255).round().byte().numpy()).save("digit.png")
    assert main(["predict", "digits", "digit.png", "--n-estimate", "200", "--seed", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["label"] == str(int(labels[0]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digit.png"]
