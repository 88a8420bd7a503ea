"""ars predict on image files: radii in the units of their norm, votes, abstentions, masks as pictures."""

import errno
import json
import os
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from ars.certification.certificate import Certificate
from ars.certification.schedule import Schedule
from ars.cli import main
from ars.cli.predict import mask_paths
from ars.data.crops import read_fitted
from ars.data.folder import folder as folder_of
from ars.experiments.run import load_run
from ars.experiments.stages import average_masks

FEW = ["--n-select=20", "--n-estimate=40", "--precision=float32", "--device=cpu"]
CERTIFICATE = Certificate(
    label=1, radius=0.01999, norm="linf", dim=1728, candidate=1, p_lower=0.6, p_upper=0.4, bound="cohen",
    radii={"cohen": 0.01999}, counts=(10, 30, *8 * [0]), select_counts=(0, 1, *8 * [0]), alpha=0.05, sigmas=(0.5,),
    seed=0, index=0, precision="float32", schedule=Schedule("fixed", 40), planned=40, ended="planned",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    tiny = ["--data.passes=1", "--classifier.width=4", "--mask.width=2", "--train.batch_size=256", "--train.epochs=1",
            "--train.precision=float32", "--device=cpu"]  # fmt: skip
    for method in ("adaptive", "cohen"):
        assert main(["train", "--out", str(folder / method), "--method", method, *tiny]) == 0
    return folder


def picture(path, width=24, height=24, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
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


def test_masks_have_noise_of_the_calls_seed(trained, tmp_path):
    image, made = picture(tmp_path / "x.png"), []
    for seed in (3, 3, 4):
        command = ["predict", str(trained / "adaptive"), str(image), "--masks", str(tmp_path), f"--seed={seed}"]
        assert main([*command, *FEW]) == 0
        made.append(np.asarray(Image.open(tmp_path / "x-mask.png")).tolist())
    assert made[0] == made[1] != made[2]


def test_a_full_disk_leaves_the_old_mask(trained, tmp_path, capsys, monkeypatch):
    image, old = picture(tmp_path / "x.png"), picture(tmp_path / "m" / "x-mask.png")
    before = old.read_bytes()

    def full(picture, file, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Image.Image, "save", full)
    assert main(["predict", str(trained / "adaptive"), str(image), "--masks", str(tmp_path / "m"), *FEW]) == 2
    assert f"cannot write {old}: No space left on device" in capsys.readouterr().err
    assert old.read_bytes() == before


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


@pytest.mark.parametrize(
    ("width", "height", "told"),
    [(24, 24, ""), (50, 50, ", as resized to 24x24"), (50, 31, ", as resized and cropped to 24x24")],
)
def test_an_answer_says_that_it_is_for_a_resized_image(trained, tmp_path, capsys, monkeypatch, width, height, told):
    image = picture(tmp_path / "x.png", width, height)
    command = ["predict", str(trained / "cohen"), str(image), "--resize", "--seed=0", *FEW]
    votes = "(30 votes for 1, 10 votes for 0)"
    for certificate, words in (
        (CERTIFICATE, f"1, certified within 5.097/255 in linf{told} {votes}"),
        (replace(CERTIFICATE, label=None, radius=0.0, radii={"cohen": 0.0}), f"abstains{told} {votes}"),
    ):
        monkeypatch.setattr("ars.experiments.certifying.job.certify_images", lambda *_, it=certificate: [it])
        assert main(command) == 0
        assert capsys.readouterr().out == f"{image}: {words}\n"
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["seen"], answer["resized"]) == ([24, 24], told != "")


def test_an_image_that_was_taken_as_it_is_says_so(trained, tmp_path, capsys):
    assert main(["predict", str(trained / "cohen"), str(picture(tmp_path / "x.png")), *FEW, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["seen"], answer["resized"], answer["converted"]) == ([24, 24], False, "")


@pytest.mark.parametrize(("side", "told"), [(24, ""), (50, " and resized to 24x24")])
def test_an_answer_says_that_the_values_of_the_file_were_converted(trained, tmp_path, capsys, side, told):
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    command = ["predict", str(trained / "cohen"), str(tmp_path / "x.png"), "--resize", *FEW]
    assert main(command) == 0
    assert f", as laid on white{told} (" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["converted"], answer["resized"]) == ("laid on white", told != "")


def test_a_resized_image_is_what_a_folder_shows(tmp_path):
    """A certificate of ars predict --resize is one for the input that ars certify has of the same file."""
    for number in range(30):
        for name, width in (("a", 24), ("b", 50)):
            picture(tmp_path / "photos" / name / f"{number}.png", width, 31, seed=number)
    benchmark = folder_of(root=str(tmp_path / "photos"), size=24, workers=0)
    images, _ = benchmark.examples("test", range(benchmark.size("test")))
    files = [tmp_path / "photos" / name.decode() for name in benchmark._pictures.names["test"].tolist()]
    assert torch.equal(images, torch.stack([read_fitted(file, 24)[0] for file in files]))


@pytest.mark.parametrize(("norm", "told"), [("linf", "5.097/255 in linf"), ("l2", "0.019 in l2")])
def test_a_radius_is_told_in_the_units_of_its_norm(trained, tmp_path, capsys, monkeypatch, norm, told):
    certificate = replace(CERTIFICATE, norm=norm)
    monkeypatch.setattr("ars.experiments.certifying.job.certify_images", lambda *arguments: [certificate])
    image = picture(tmp_path / "x.png")
    command = ["predict", str(trained / "cohen"), str(image), *FEW]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{image}: 1, certified within {told} (30 votes for 1, 10 votes for 0)\n"
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["radius"] == 0.01999
    assert ("radius_255" in answer) == (norm == "linf")


def test_a_radius_of_a_grid_is_told_as_it_was_asked_for(trained, tmp_path, capsys, monkeypatch):
    grid = Schedule("curve", 40, radii=(1 / 255, 2 / 255))
    certificate = replace(CERTIFICATE, schedule=grid, radius=2 / 255, radii={"cohen": 2 / 255}, ended="certified")
    monkeypatch.setattr("ars.experiments.certifying.job.certify_images", lambda *arguments: [certificate])
    image = picture(tmp_path / "x.png")
    assert main(["predict", str(trained / "cohen"), str(image), *FEW]) == 0
    assert f"{image}: 1, certified within 2.000/255 in linf (" in capsys.readouterr().out


def test_an_abstention_has_no_radius(trained, tmp_path, capsys, monkeypatch):
    certificate = replace(CERTIFICATE, label=None, radius=0.0, radii={"cohen": 0.0})
    monkeypatch.setattr("ars.experiments.certifying.job.certify_images", lambda *arguments: [certificate])
    image = picture(tmp_path / "x.png")
    assert main(["predict", str(trained / "cohen"), str(image), *FEW]) == 0
    assert capsys.readouterr().out == f"{image}: abstains (30 votes for 1, 10 votes for 0)\n"


def test_the_stopping_modes_hold_for_predictions_too(trained, tmp_path, capsys):
    image = picture(tmp_path / "a.png")
    few = ["--n-select=20", "--n-estimate=300", "--precision=float32", "--device=cpu", "--json"]
    assert main(["predict", str(trained / "cohen"), str(image), *few, "--mode", "curve", "--radii", "0", "1/255"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["radius"] in (0, 1 / 255)  # only what was asked for can be certified
    assert main(["predict", str(trained / "cohen"), str(image), *few, "--radii", "1/255"]) == 2
    assert "--radii are for --mode curve; give both" in capsys.readouterr().err


def test_every_call_draws_noise_that_nobody_knew_and_a_seed_repeats_it(trained, tmp_path, capsys):
    """An image that was optimised for known noise may get a false certificate."""
    images = [str(picture(tmp_path / name, seed=number)) for number, name in enumerate(("a.png", "b.png"))]
    command = ["predict", str(trained / "cohen"), *images, *FEW]

    def answers(*options):
        assert main([*command, "--json", *options]) == 0
        output = capsys.readouterr()
        assert output.err == ""
        return [json.loads(line) for line in output.out.splitlines()]

    calls = [answers() for _ in range(3)]
    assert len({call[0]["seed"] for call in calls}) == 3
    for call in calls:
        assert [answer["seed"] for answer in call] == [call[0]["seed"]] * 2
        assert [answer["index"] for answer in call] == [0, 1]  # each image has its own
        assert 0 <= call[0]["seed"] < 2**32
        assert answers(f"--seed={call[0]['seed']}") == call


def test_a_fresh_seed_is_told_once(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("secrets.randbits", lambda bits: 2**bits - 1)  # the largest is one that can be drawn with
    images = [str(picture(tmp_path / name)) for name in ("a.png", "b.png")]
    command = ["predict", str(trained / "cohen"), *images, *FEW]
    assert main(command) == 0
    fresh = capsys.readouterr()
    assert fresh.err == "fresh noise: --seed 4294967295 repeats it\n"
    assert main([*command, "--seed=4294967295"]) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (fresh.out, "")


def test_the_seed_of_a_recipe_is_not_that_of_predictions(trained, tmp_path, capsys):
    """It stands in the run folder for everybody to read."""
    run = tmp_path / "run"
    shutil.copytree(trained / "cohen", run)
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["certify"] = {**recipe.get("certify", {}), "seed": 5}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert main(["predict", str(run), str(picture(tmp_path / "a.png")), *FEW, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] != 5


def test_a_run_predicts_without_the_data_it_was_trained_on(tmp_path, monkeypatch, capsys):
    """sukenik alone goes on needing it, and says why."""
    monkeypatch.delenv("ARS_DATA", raising=False)
    for number in range(40):
        for name in ("cat", "dog"):
            image = picture(tmp_path / "photos" / name / f"{number}.png", 16, 16, seed=number)
    small = ["--data.kind=folder", f"--data.root={tmp_path / 'photos'}", "--data.size=16", "--data.workers=0",
             "--classifier.width=4", "--mask.width=2", "--train.batch_size=8", "--train.max_steps=1",
             "--train.precision=float32", "--device=cpu"]  # fmt: skip
    for method in ("adaptive", "sukenik"):
        assert main(["train", "--out", str(tmp_path / method), "--method", method, *small]) == 0
    command = ["predict", str(tmp_path / "adaptive"), str(image), "--json", "--seed=0", *FEW]
    capsys.readouterr()
    assert main(command) == 0
    before = capsys.readouterr().out
    (tmp_path / "photos").rename(tmp_path / "moved")
    command[2] = str(tmp_path / "moved" / "dog" / image.name)
    assert main([*command, "--masks", str(tmp_path / "masks")]) == 0
    answers = [json.loads(text) for text in (before, capsys.readouterr().out)]
    assert answers[0]["votes"] == answers[1]["votes"]
    assert set(answers[1]["votes"]) <= {"cat", "dog"}
    assert (tmp_path / "masks" / f"{image.stem}-mask.png").is_file()
    assert main(["predict", str(tmp_path / "sukenik"), command[2], *FEW]) == 2
    said = capsys.readouterr().err
    assert "needs its training images, which the noise of sukenik is measured from: data.root names" in said
