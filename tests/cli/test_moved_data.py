"""Runs on a folder of one's own: from whichever folder a command is given, and after the images were moved."""

import json
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import yaml
from PIL import Image

from ars.cli import main

SMALL = ["--data.kind=folder", "--data.size=16", "--data.workers=0", "--classifier.width=4", "--mask.width=2",
         "--train.batch_size=8", "--train.max_steps=1", "--train.precision=float32", "--device=cpu"]  # fmt: skip
FEW = ["--examples=4", "--n-select=10", "--n-estimate=20", "--precision=float32", "--device=cpu"]


def fill(folder, names=("cat", "dog"), seed=0):
    random = np.random.default_rng(seed)
    for number in range(40):
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Images, and a run that was trained beside them on the relative path to them."""
    desk = tmp_path_factory.mktemp("moved") / "desk"
    fill(desk / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        assert main(["train", "--out=run", "--data.root=photos", *SMALL]) == 0
    return desk


@pytest.fixture
def elsewhere(made, tmp_path, monkeypatch):
    """Another current folder with a copy of the run in it; the images may be moved."""
    shutil.copytree(made / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    if (tmp_path / "photos").exists():
        (tmp_path / "photos").rename(made / "photos")


@contextmanager
def interrupted(monkeypatch):
    """While this lasts, trainings end before their model is written."""

    def lose(*_):
        raise OSError("lost power")

    with monkeypatch.context() as patch:
        patch.setattr("ars.experiments.training.save_tensors", lose)
        yield


def sentence(capsys):
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ars: ")]
    return line


def test_a_relative_path_is_the_same_run_as_the_absolute_one(made, elsewhere, capsys, monkeypatch):
    root = yaml.safe_load((made / "run" / "recipe.yaml").read_text())["data"]["root"]
    assert root == str((made / "photos").resolve())
    before = (made / "run" / "recipe.yaml").read_bytes()
    monkeypatch.chdir(made)
    for spelling in ("photos", "../desk/photos", root):
        assert main(["train", "--out=run", f"--data.root={spelling}", *SMALL]) == 0
        assert "trained already" in capsys.readouterr().err
    assert (made / "run" / "recipe.yaml").read_bytes() == before
    fill(elsewhere / "others")
    assert main(["train", "--out=run", f"--data.root={elsewhere / 'others'}", *SMALL]) == 2
    assert "holds a run of another recipe" in sentence(capsys)


def test_an_interrupted_training_goes_on_from_another_folder(made, elsewhere, monkeypatch):
    with monkeypatch.context() as patch, interrupted(monkeypatch):
        patch.chdir(made)
        out = f"--out={elsewhere / 'again'}"
        assert main(["train", out, "--data.root=photos", *SMALL]) == 2
    assert not (elsewhere / "again" / "model.safetensors").exists()
    assert main(["train", out, f"--data.root={made / 'photos'}", *SMALL]) == 0
    weights = [(folder / "model.safetensors").read_bytes() for folder in (made / "run", elsewhere / "again")]
    assert weights[0] == weights[1]


def test_an_interrupted_training_goes_on_after_its_images_were_moved(made, elsewhere, capsys, monkeypatch):
    train = ["train", "--out=again", *SMALL]
    with interrupted(monkeypatch):
        assert main([*train, f"--data.root={made / 'photos'}"]) == 2
    (made / "photos").rename(elsewhere / "photos")
    fill(elsewhere / "others", seed=1)
    before = {path: path.read_bytes() for path in (elsewhere / "again").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*train, "--data.root=others"]) == 2
    assert "again was begun on other images than those of others" in sentence(capsys)
    assert main([*train, "--data.root=photos", "--sigma=0.3"]) == 2
    assert "holds a run of another recipe (sigma is 0.75 there, 0.3 here)" in sentence(capsys)
    assert {path: path.read_bytes() for path in (elsewhere / "again").rglob("*") if path.is_file()} == before
    assert main([*train, "--data.root=photos"]) == 0
    weights = [(folder / "model.safetensors").read_bytes() for folder in (elsewhere / "run", elsewhere / "again")]
    assert weights[0] == weights[1]
    said = capsys.readouterr()
    assert f"again: goes on with data.root from {elsewhere / 'photos'}, as it was moved" in said.err
    assert f"ars certify again --data.root {elsewhere / 'photos'}" in said.out
    assert (elsewhere / "again" / "recipe.yaml").read_bytes() == before[elsewhere / "again" / "recipe.yaml"]


def test_the_data_is_found_from_any_folder_and_after_it_was_moved(made, elsewhere, capsys):
    assert main(["certify", "run", *FEW]) == 0
    (made / "photos").rename(elsewhere / "photos")
    capsys.readouterr()
    for command in (["certify", "run", *FEW], ["vote", "run", "--draws=1", "--device=cpu"]):
        assert main(command) == 2
        said = sentence(capsys)
        assert f"data.root names {made / 'photos'}, where nothing is; class folders of images were expected" in said
        assert "--data.root PATH" in said
    records = elsewhere / "run" / "certify" / "test" / "shard-00000.jsonl"
    before = records.read_text().splitlines()
    assert main(["certify", "run", *FEW[1:], "--examples=6", "--data.root=photos"]) == 0
    assert records.read_text().splitlines()[:4] == before
    assert main(["vote", "run", "--draws=1", "--device=cpu", "--data.root=photos"]) == 0
    assert json.loads((elsewhere / "run" / "vote.json").read_text())["draws"] == 1


def test_where_a_folder_has_fewer_images_than_its_recipe_says_all_are_certified(elsewhere, capsys):
    assert main(["certify", "run", *FEW[1:], "--examples=100"]) == 2
    assert "test images at every=1, so 100 are too many" in sentence(capsys)
    assert main(["certify", "run", *FEW[1:]]) == 0  # 100, says the recipe
    records = elsewhere / "run" / "certify" / "test"
    made = sum(len(shard.read_text().splitlines()) for shard in records.glob("shard-*.jsonl"))
    assert made == len(json.loads((records / "files.json").read_text())) < 100


def test_data_that_is_not_the_runs_is_refused(made, elsewhere, capsys):
    assert main(["certify", "run", *FEW]) == 0
    fill(elsewhere / "brighter", seed=1)
    shutil.copytree(made / "photos", elsewhere / "mended")
    [*_, last] = json.loads((elsewhere / "run" / "certify" / "test" / "files.json").read_text())
    picture = Image.open(elsewhere / "mended" / last)
    picture.putpixel((3, 3), (0, 0, 0))  # too little for a look at it
    picture.save(elsewhere / "mended" / last)
    fill(elsewhere / "classes", names=("cat", "cow"))
    before = {path: path.read_bytes() for path in (elsewhere / "run").rglob("*") if path.is_file()}
    for root, words in (
        ("brighter", "holds records of other images"),
        ("mended", "holds records of other images: files of the same names have changed"),
        ("classes", "classes has other classes than run was trained on, cow for one"),
    ):
        capsys.readouterr()
        assert main(["certify", "run", *FEW, f"--data.root={root}"]) == 2
        assert words in sentence(capsys)
    assert main(["certify", "run", *FEW, "--data.seed=1"]) == 2
    assert "--data.seed belongs to a model that was not trained here" in sentence(capsys)
    assert {path: path.read_bytes() for path in (elsewhere / "run").rglob("*") if path.is_file()} == before


def test_noise_that_is_measured_from_moved_images_is_told_where_they_are(made, elsewhere, capsys):
    assert main(["train", "--out=sukenik", "--method=sukenik", f"--data.root={made / 'photos'}", *SMALL]) == 0
    (made / "photos").rename(elsewhere / "photos")
    command = ["predict", "sukenik", "photos/cat/0.png", *FEW[1:]]
    assert main(command) == 2
    assert "--data.root PATH" in sentence(capsys)
    assert main([*command, "--data.root=photos"]) == 0


OWN = """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 2))
"""


def test_records_of_a_model_of_ones_own_go_on_wherever_its_images_lie(made, elsewhere, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(elsewhere))
    (elsewhere / "own_net.py").write_text(OWN)
    few = ["--n-select=10", "--n-estimate=20", "--precision=float32", "--device=cpu"]
    model = ["--model=own_net:net", "--sigma=0.5", "--data.size=16", *few]
    shutil.copytree(made / "photos", elsewhere / "photos")
    records = elsewhere / "own" / "certify" / "test" / "shard-00000.jsonl"
    assert main(["certify", *model, "--out=own", "--data=folder:photos", "--examples=2"]) == 0
    first = records.read_text().splitlines()
    same = [f"folder:{elsewhere}/photos", "folder:./photos"]
    for number, spelling in enumerate(same, start=3):
        assert main(["certify", *model, "--out=own", f"--data={spelling}", f"--examples={number}"]) == 0
    (elsewhere / "photos").rename(elsewhere / "pictures")
    more = ["--examples=5", "--data.workers=0"]
    assert main(["certify", *model, "--out=own", "--data=folder:pictures", *more]) == 0
    assert records.read_text().splitlines()[:2] == first
    assert len(records.read_text().splitlines()) == 5
    fill(elsewhere / "others", seed=1)
    fill(elsewhere / "cows", names=("cat", "cow"))
    capsys.readouterr()
    assert main(["certify", *model, "--out=own", "--data=folder:others", "--examples=6"]) == 2
    assert "holds records of other images" in sentence(capsys)
    assert main(["certify", *model, "--out=own", "--data=folder:cows", "--examples=6", "--name=more"]) == 2
    assert "own was begun on other images than those of cows" in sentence(capsys)
    (elsewhere / "pictures" / "cat" / "0.png").rename(elsewhere / "one.png")
    shutil.rmtree(elsewhere / "pictures")
    assert main(["predict", "own", "one.png", "--model=own_net:net", *few]) == 0
    assert capsys.readouterr().out.startswith("one.png: ")


SWEEP = """
recipe: base.yaml
groups: [{methods: [static_mask], sigma: [0.5], vote: 2, keep_weights: true}]
"""


@pytest.fixture
def swept(made, tmp_path, monkeypatch):
    """A folder with a sweep of one cell on images beside it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "photos", "photos")
    recipe = yaml.safe_load((made / "run" / "recipe.yaml").read_text())
    recipe["data"]["root"] = "photos"
    recipe["certify"] |= {"examples": 100, "n_select": 10, "n_estimate": 20, "precision": "float32"}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(recipe))
    (tmp_path / "own.yaml").write_text(SWEEP)
    return tmp_path


def test_a_sweep_goes_on_after_its_images_were_moved(swept, capsys, monkeypatch):
    sweep, cell = ["sweep", "own.yaml", "--out=runs", "--device=cpu"], "static_mask-s0.5-seed0"
    with interrupted(monkeypatch):
        assert main(sweep) == 1
    (swept / "photos").rename(swept / "pictures")
    capsys.readouterr()
    assert main(sweep) == 1
    assert f"data.root names {swept / 'photos'}, where nothing is" in capsys.readouterr().err
    assert main([*sweep, f"--data.root={swept / 'pictures'}"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["own: 1 cells, 1 done, 0 left", f"  {cell}: done"]
    assert yaml.safe_load((swept / "runs" / cell / "recipe.yaml").read_text())["data"]["root"] == "photos"
    base = (swept / "base.yaml").read_text()
    (swept / "base.yaml").write_text(base.replace("root: photos", "root: pictures"))
    assert main([*sweep, "--plan"]) == 0
    said = capsys.readouterr().out
    assert f"runs/{cell} holds a run on data elsewhere (data.root is photos there, pictures here)" in said
    assert "leave the recipe as it was and give --data.root" in said


def test_places_that_the_data_of_a_sweep_does_not_have_are_refused(swept, capsys):
    (swept / "base.yaml").write_text("data: {kind: digits}")
    assert main(["sweep", "own.yaml", "--out=runs", "--data.root=photos"]) == 2
    assert "data.kind digits has no key 'root'" in sentence(capsys)
    assert not (swept / "runs").exists()


def test_a_sweep_certifies_all_where_a_folder_has_fewer_images_than_it_says(swept, capsys):
    tmp_path = swept
    sweep, cell = ["sweep", "own.yaml", "--out=runs", "--device=cpu"], "static_mask-s0.5-seed0"
    assert main([*sweep, "--plan"]) == 0
    left = "train to step 1 (at most 7 epochs), certify up to 100 images, vote, masks"
    assert f"{cell}: {left}" in capsys.readouterr().out
    assert main(sweep) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["own: 1 cells, 1 done, 0 left", f"  {cell}: done"]
    records = tmp_path / "runs" / cell / "certify" / "test"
    images = json.loads((records / "settings.json").read_text())["layout"]["examples"]
    assert 1 < images < 100
    (records / "shard-00000.jsonl").unlink()
    assert main([*sweep, "--plan"]) == 0
    assert f"{cell}: certify {images} images" in capsys.readouterr().out
    assert main(sweep) == 0
    assert main(["pack", "own.yaml", "--runs=runs", "--out=results"]) == 0
    packed = tmp_path / "results" / "own" / cell
    assert yaml.safe_load((packed / "recipe.yaml").read_text())["certify"]["examples"] == images
    capsys.readouterr()
    assert main(["sweep", "own.yaml", "--out=other", "--packed=results", "--plan"]) == 0
    assert f"{cell}: done, packed" in capsys.readouterr().out
