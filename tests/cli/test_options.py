"""Options that several commands share: the memory they may take, and where data lies after it was moved."""

import json
import shutil
from contextlib import contextmanager

import pytest
import yaml
from PIL import Image

from ars.cli.main import main

from ..conftest import contents
from .conftest import FEW, FOLDER, QUICK, fill


@pytest.mark.parametrize("command", [["certify", "RUN"], ["predict", "RUN", "x.png"], ["vote", "RUN"]])
def test_the_memory_that_a_command_may_take_is_set_before_anything_is_loaded(command, tmp_path, monkeypatch, refused):
    seen = []
    (tmp_path / "recipe.yaml").write_text("sigma: 0.5")
    arguments = [str(tmp_path) if word == "RUN" else word for word in command]
    assert "CUDA" in refused([*arguments, "--memory", "1.5", "--device", "cpu"])
    monkeypatch.setattr("ars.certification.memory.limit_memory", lambda device, gib: seen.append((str(device), gib)))
    assert "model.safetensors" in refused([*arguments, "--memory=1.5", "--device=cpu"])
    assert seen == [("cpu", 1.5)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Images, and a run that was trained beside them on the relative path to them."""
    place = tmp_path_factory.mktemp("moved") / "desk"
    fill(place / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["train", "--out=run", "--data.root=photos", *FOLDER]) == 0
    return place


@pytest.fixture
def elsewhere(made, desk):
    """Another current folder with a copy of the run in it; the images may be moved there."""
    shutil.copytree(made / "run", desk / "run")
    yield desk
    if (desk / "photos").exists():
        (desk / "photos").rename(made / "photos")


@contextmanager
def interrupted(monkeypatch):
    """While this lasts, trainings end before their model is written."""

    def lose(*_):
        raise OSError("lost power")

    with monkeypatch.context() as patch:
        patch.setattr("ars.workflows.train.save_tensors", lose)
        yield


def test_a_relative_path_is_the_same_run_as_the_absolute_one(made, elsewhere, refused, printed, monkeypatch):
    root = yaml.safe_load((made / "run" / "recipe.yaml").read_text())["data"]["root"]
    assert root == str((made / "photos").resolve())
    before = (made / "run" / "recipe.yaml").read_bytes()
    monkeypatch.chdir(made)
    for spelling in ("photos", "../desk/photos", root):
        assert "already trained" in printed(["train", "--out=run", f"--data.root={spelling}", *FOLDER]).err
    assert (made / "run" / "recipe.yaml").read_bytes() == before
    fill(elsewhere / "others")
    assert "another recipe" in refused(["train", "--out=run", f"--data.root={elsewhere / 'others'}", *FOLDER])


@pytest.mark.parametrize("moved", [False, True])
def test_an_interrupted_training_resumes_from_another_folder_or_with_its_images_in_another(
    made, elsewhere, refused, monkeypatch, moved, printed
):
    train = ["train", f"--out={elsewhere / 'again'}", *FOLDER]
    with interrupted(monkeypatch), monkeypatch.context() as patch:
        patch.chdir(made)
        assert main([*train, "--data.root=photos"]) == 2
    root = made / "photos"
    if moved:
        root = root.rename(elsewhere / "photos")
        fill(elsewhere / "others", seed=1)
        before = contents(elsewhere / "again")
        assert "model.safetensors" not in before
        for options, words in (
            (["--data.root=others"], "others"),
            (["--data.root=photos", "--sigma=0.3"], "(sigma is 0.75 there, 0.3 here)"),
        ):
            assert words in refused([*train, *options])
        assert contents(elsewhere / "again") == before
    said = printed([*train, f"--data.root={root}"])
    assert (f"new place {root}" in said.err) == (f"ars certify {elsewhere / 'again'} --data.root {root}" in said.out)
    assert (f"new place {root}" in said.err) == moved
    weights = [(folder / "model.safetensors").read_bytes() for folder in (elsewhere / "run", elsewhere / "again")]
    assert weights[0] == weights[1]
    assert not moved or (elsewhere / "again" / "recipe.yaml").read_bytes() == before["recipe.yaml"]


def test_the_data_is_found_from_any_folder_and_after_it_was_moved(made, elsewhere, refused):
    assert main(["certify", "run", *FEW]) == 0
    (made / "photos").rename(elsewhere / "photos")
    for command in (["certify", "run", *FEW], ["vote", "run", "--draws=1", "--device=cpu"]):
        said = refused(command)
        assert f"data.root names {made / 'photos'}" in said
        assert "--data.root PATH" in said
    records = elsewhere / "run" / "certify" / "test" / "shard-00000.jsonl"
    before = records.read_text().splitlines()
    assert main(["certify", "run", *QUICK, "--examples=6", "--data.root=photos"]) == 0
    assert records.read_text().splitlines()[:4] == before
    assert main(["vote", "run", "--draws=1", "--device=cpu", "--data.root=photos"]) == 0
    assert json.loads((elsewhere / "run" / "vote.json").read_text())["draws"] == 1


def test_if_a_folder_has_fewer_images_than_its_recipe_says_all_are_certified(elsewhere, refused):
    assert "100" in refused(["certify", "run", *QUICK, "--examples=100"])
    assert main(["certify", "run", *QUICK]) == 0  # 100, says the recipe
    records = elsewhere / "run" / "certify" / "test"
    certified = sum(len(shard.read_text().splitlines()) for shard in records.glob("shard-*.jsonl"))
    assert certified == len(json.loads((records / "files.json").read_text())) < 100


def test_data_that_is_not_the_runs_is_refused(made, elsewhere, refused):
    assert main(["certify", "run", *FEW]) == 0
    fill(elsewhere / "brighter", seed=1)
    shutil.copytree(made / "photos", elsewhere / "retouched")
    [*_, last] = json.loads((elsewhere / "run" / "certify" / "test" / "files.json").read_text())
    picture = Image.open(elsewhere / "retouched" / last)
    picture.putpixel((3, 3), tuple(value ^ 1 for value in picture.getpixel((3, 3))))  # too little for statistics
    picture.save(elsewhere / "retouched" / last)
    fill(elsewhere / "classes", names=("cat", "cow"))
    before = contents(elsewhere / "run")
    for option, words in (
        ("--data.root=brighter", "other images"),
        ("--data.root=retouched", "files of the same names"),
        ("--data.root=classes", "cow"),
        ("--data.seed=1", "--data.seed"),
    ):
        assert words in refused(["certify", "run", *FEW, option])
    assert contents(elsewhere / "run") == before


def test_records_of_the_users_own_model_continue_wherever_its_images_lie(made, own, elsewhere, printed, refused):
    shutil.copytree(made / "photos", elsewhere / "pets")
    records = elsewhere / "own" / "certify" / "test" / "shard-00000.jsonl"

    def certify(data, examples, *options):
        own = ["--model=own_model:photos", "--sigma=0.5", "--data.size=16", "--out=own", *QUICK]
        return ["certify", *own, f"--data=folder:{data}", f"--examples={examples}", *options]

    assert main(certify("pets", 2)) == 0
    first = records.read_text().splitlines()
    assert main(certify(f"{elsewhere}/pets", 3)) == main(certify("./pets", 4)) == 0
    (elsewhere / "pets").rename(elsewhere / "pictures")
    assert main(certify("pictures", 5, "--data.workers=0")) == 0
    assert records.read_text().splitlines()[:2] == first
    assert len(records.read_text().splitlines()) == 5
    fill(elsewhere / "others", seed=1)
    fill(elsewhere / "cows", names=("cat", "cow"))
    assert "other images" in refused(certify("others", 6))
    assert "cows" in refused(certify("cows", 6, "--name=more"))
    (elsewhere / "pictures" / "cat" / "0.png").rename(elsewhere / "one.png")
    shutil.rmtree(elsewhere / "pictures")
    assert printed(["predict", "own", "one.png", "--model=own_model:photos", *QUICK]).out.startswith("one.png: ")


@pytest.fixture
def swept(made, desk):
    """A folder with a sweep of one cell on images beside it: the command and the cell."""
    shutil.copytree(made / "photos", "photos")
    recipe = yaml.safe_load((made / "run" / "recipe.yaml").read_text())
    recipe["data"]["root"] = "photos"
    recipe["certify"] |= {"examples": 100, "n_select": 10, "n_estimate": 20, "precision": "float32"}
    (desk / "base.yaml").write_text(yaml.safe_dump(recipe))
    groups = "[{methods: [static_mask], sigma: [0.5], vote: 2, keep_weights: true}]"
    (desk / "own.yaml").write_text(f"recipe: base.yaml\ngroups: {groups}")
    return ["sweep", "own.yaml", "--out=runs", "--device=cpu"], "static_mask-s0.5-seed0"


def test_a_sweep_resumes_after_its_images_were_moved(swept, desk, capsys, monkeypatch, printed):
    sweep, cell = swept
    with interrupted(monkeypatch):
        assert main(sweep) == 1
    (desk / "photos").rename(desk / "pictures")
    assert main(sweep) == 1
    assert f"data.root names {desk / 'photos'}" in capsys.readouterr().err
    assert printed([*sweep, f"--data.root={desk / 'pictures'}"]).out.splitlines()[-1] == f"  {cell}: done"
    assert yaml.safe_load((desk / "runs" / cell / "recipe.yaml").read_text())["data"]["root"] == "photos"
    (desk / "base.yaml").write_text((desk / "base.yaml").read_text().replace("root: photos", "root: pictures"))
    said = printed([*sweep, "--plan"]).out
    assert "(data.root is photos there, pictures here)" in said
    assert "--data.root" in said


def test_places_that_the_data_of_a_sweep_does_not_have_are_refused(swept, desk, refused):
    (desk / "base.yaml").write_text("data: {kind: digits}")
    assert "'root'" in refused([*swept[0], "--data.root=photos"])
    assert not (desk / "runs").exists()


def test_a_sweep_certifies_all_if_a_folder_has_fewer_images_than_it_says(swept, desk, printed):
    sweep, cell = swept
    left = "train to step 1 (at most 7 epochs), certify up to 100 images, vote, masks"
    assert f"{cell}: {left}" in printed([*sweep, "--plan"]).out
    assert printed(sweep).out.splitlines()[-1] == f"  {cell}: done"
    records = desk / "runs" / cell / "certify" / "test"
    images = json.loads((records / "settings.json").read_text())["layout"]["examples"]
    assert 1 < images < 100
    (records / "shard-00000.jsonl").unlink()
    assert f"{cell}: certify {images} images" in printed([*sweep, "--plan"]).out
    assert main(sweep) == 0
    assert main(["pack", "own.yaml", "--runs=runs", "--out=results"]) == 0
    packed = desk / "results" / "own" / cell
    assert yaml.safe_load((packed / "recipe.yaml").read_text())["certify"]["examples"] == images
    assert f"{cell}: done, packed" in printed(["sweep", "own.yaml", "--out=other", "--packed=results", "--plan"]).out
