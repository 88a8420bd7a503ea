"""Small, portable, the same bytes each time."""

import dataclasses
import gzip
import json
import shutil
import zipfile

import numpy as np
import pytest
import torch
import yaml

from ars.certification.records import Record
from ars.certification.shards import merge
from ars.data.settings import Data
from ars.experiments.certifying.local_engine import certify_run
from ars.experiments.certifying.request import Request
from ars.experiments.recipe import Classifier, Recipe, RecipeError
from ars.experiments.run import load_run
from ars.experiments.sweeps import masks
from ars.experiments.sweeps.file import Sweep
from ars.experiments.sweeps.masks import save_average_masks
from ars.experiments.sweeps.packing import pack_cell, pack_sweep
from ars.experiments.sweeps.plan import make_plan
from ars.experiments.sweeps.portable import portable
from ars.smoothing import Release

from ..conftest import CPU, TINY
from .test_plan import cell, voted


@pytest.fixture
def runs(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "runs" / "run")
    voted(run)
    save_average_masks(run, TINY.certify, device=CPU)
    return tmp_path / "runs"


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_packed_is_all_that_is_needed(runs, tmp_path):
    size = pack_cell(cell(), runs / "run", tmp_path / "packed")
    packed = contents(tmp_path / "packed")
    assert set(packed) == {
        "recipe.yaml",
        "environment.json",
        "benchmark.json",
        "train.jsonl",
        "timing.json",
        "vote.json",
        "masks.npz",
        "certify/test/settings.json",
        "certify/test/environment.json",
        "certify/test/records.jsonl.gz",
    }
    assert size == sum(len(data) for data in packed.values()) < 10_000
    timing = json.loads(packed["timing.json"])
    assert timing.keys() == {"train_seconds", "certify_seconds", "vote_seconds"}
    assert timing["vote_seconds"] == 3.0
    lines = gzip.decompress(packed["certify/test/records.jsonl.gz"]).decode().splitlines()
    assert [Record.from_json(line) for line in lines] == list(merge(runs / "run/certify/test").records)
    assert yaml.safe_load(packed["recipe.yaml"]) == yaml.safe_load(TINY.to_yaml())


def test_where_the_sweep_asks_for_fewer_images_all_are_packed_and_the_recipe_says_so(runs, tmp_path):
    fewer = dataclasses.replace(TINY, certify=dataclasses.replace(TINY.certify, examples=2))
    pack_cell(cell(recipe=fewer), runs / "run", tmp_path / "packed")
    packed = contents(tmp_path / "packed")
    lines = gzip.decompress(packed["certify/test/records.jsonl.gz"]).splitlines()
    assert yaml.safe_load(packed["recipe.yaml"])["certify"]["examples"] == len(lines) == 6


def test_the_digest_of_a_borrowed_classifier_is_packed(runs, tmp_path):
    """Which the run has written down, and the sweep file does not state."""
    borrowed = dataclasses.replace(TINY, classifier=Classifier(width=4, from_run="runs/cohen"))
    pinned = dataclasses.replace(borrowed, classifier=dataclasses.replace(borrowed.classifier, sha256="a" * 64))
    (runs / "run" / "recipe.yaml").write_text(pinned.to_yaml())
    pack_cell(cell(recipe=borrowed), runs / "run", tmp_path / "packed")
    assert yaml.safe_load((tmp_path / "packed" / "recipe.yaml").read_text()) == yaml.safe_load(pinned.to_yaml())


def test_packing_twice_gives_the_same_bytes(runs, tmp_path, monkeypatch):
    pack_cell(cell(keep_weights=True), runs / "run", tmp_path / "one")
    monkeypatch.setattr("time.time", lambda: 2e9)  # what gzip would write into its header
    pack_cell(cell(keep_weights=True), runs / "run", tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert "model.safetensors" in contents(tmp_path / "one")
    pack_cell(cell(), runs / "run", tmp_path / "one")
    assert "model.safetensors" not in contents(tmp_path / "one")


def test_images_are_packed_only_where_they_may_be_shown(runs, tmp_path):
    """The embedded benchmark's; the run has stages of three images."""
    assert (runs / "run/certify/test/stages.npz").exists()
    other = dataclasses.replace(TINY, data=Data("cifar_backgrounds", size=32))
    for name, recipe, shown in (("digits", TINY, True), ("cifar", other, False)):
        pack_cell(cell(recipe=recipe, keep_weights=True), runs / "run", tmp_path / name)
        assert ("certify/test/stages.npz" in contents(tmp_path / name)) == shown
    pack_cell(cell(), runs / "run", tmp_path / "digits")
    assert "certify/test/stages.npz" not in contents(tmp_path / "digits")


def test_unfinished_cells_are_left_out_and_named(runs, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("recipe: base.yaml\n")
    said = {}
    sweep = Sweep("mine", path, (cell(), cell(name="other")), ())
    assert pack_sweep(sweep, runs, tmp_path / "results", report=lambda it, what: said.update({it.name: what})) == 1
    assert said["other"] == "left out: train 1 epochs, certify 6 images, vote, masks"
    assert sorted(path.name for path in (tmp_path / "results/mine").iterdir()) == ["run", "sweep.yaml"]
    assert (tmp_path / "results/mine/sweep.yaml").read_text() == path.read_text()


def plan_elsewhere(tmp_path, **changes):
    """What is left on a machine that has the packed results alone."""
    sweep = Sweep("tiny", tmp_path / "sweep.yaml", (cell(**changes),), ())
    [row] = make_plan(sweep, tmp_path / "elsewhere", tmp_path / "results").rows
    return row


@pytest.fixture
def packed(runs, tmp_path):
    (tmp_path / "sweep.yaml").write_text("the sweep")
    pack_sweep(Sweep("tiny", tmp_path / "sweep.yaml", (cell(),), ()), runs, tmp_path / "results")
    return tmp_path / "results" / "tiny" / "run"


def test_a_cell_that_lies_packed_is_done_where_its_run_is_not(packed, tmp_path):
    row = plan_elsewhere(tmp_path)
    assert (row.done, row.packed, row.seconds) == (True, True, 0)
    assert not plan_elsewhere(tmp_path, name="another").done
    assert plan_elsewhere(tmp_path, vote=0).done


@pytest.mark.parametrize(
    "missing", ["vote.json", "masks.npz", "timing.json", "recipe.yaml", "certify/test/settings.json"]
)
def test_a_cell_that_is_not_wholly_packed_is_not_done(packed, tmp_path, missing):
    (packed / missing).unlink()
    assert not plan_elsewhere(tmp_path).done


def test_a_cell_whose_weights_or_further_images_are_asked_for_is_not_done_without_them(packed, tmp_path):
    more = dataclasses.replace(TINY, certify=dataclasses.replace(TINY.certify, examples=7))
    fewer = dataclasses.replace(TINY, certify=dataclasses.replace(TINY.certify, examples=2))
    assert not plan_elsewhere(tmp_path, keep_weights=True).done
    assert not plan_elsewhere(tmp_path, recipe=more).done
    assert plan_elsewhere(tmp_path, recipe=fewer).done
    assert not plan_elsewhere(tmp_path, vote=99).done


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (dataclasses.replace(TINY, seed=5), "recipe (seed is 0 there, 5 here); remove it, or choose other results"),
        (dataclasses.replace(TINY, certify=dataclasses.replace(TINY.certify, alpha=0.01)), "records with alpha=0.05"),
    ],
)
def test_packed_cells_of_another_training_or_certification_are_refused(packed, tmp_path, recipe, words):
    row = plan_elsewhere(tmp_path, recipe=recipe)
    assert (row.done, row.left) == (False, None)
    assert words in row.problem


def test_a_packed_recipe_is_the_cells_wherever_the_data_lies(packed, tmp_path):
    there = dataclasses.replace(TINY, data=Data(kind="cifar_backgrounds", root="/data", backgrounds="/scenes"))
    (packed / "recipe.yaml").write_text(portable(there).to_yaml())
    assert plan_elsewhere(tmp_path, recipe=there).packed


def test_a_run_that_is_there_counts_before_what_was_packed_of_it(runs, packed, tmp_path):
    sweep = Sweep("tiny", tmp_path / "sweep.yaml", (cell(),), ())
    [row] = make_plan(sweep, runs, tmp_path / "results").rows
    assert (row.done, row.packed) == (True, False)


def test_packing_elsewhere_leaves_what_was_packed_as_it_is(packed, tmp_path):
    before, told = contents(packed), []
    sweep = Sweep("tiny", tmp_path / "sweep.yaml", (cell(),), ())
    count = pack_sweep(sweep, tmp_path / "elsewhere", tmp_path / "results", report=lambda _, what: told.append(what))
    assert (count, told, contents(packed)) == (0, ["packed before"], before)


@pytest.fixture
def shorter(runs, tmp_path):
    """A sweep file of the same name in another folder, its cell of that name trained otherwise."""
    recipe = dataclasses.replace(TINY, train=dataclasses.replace(TINY.train, max_steps=1))
    (runs / "run" / "recipe.yaml").write_text(recipe.to_yaml())
    (tmp_path / "tiny.yaml").write_text("another sweep")
    return Sweep("tiny", tmp_path / "tiny.yaml", (cell(name="new", recipe=recipe), cell(recipe=recipe)), ())


@pytest.mark.parametrize("finished", [["run"], ["new"], ["new", "run"]])
def test_packed_cells_of_another_training_are_not_written_over(packed, shorter, runs, tmp_path, finished):
    """Whether the cell that is in the way is finished or not, and whichever comes first."""
    (packed / "model.safetensors").write_bytes(b"weights")
    before = contents(tmp_path / "results")
    if "new" in finished:
        shutil.copytree(runs / "run", runs / "new")
    if "run" not in finished:
        shutil.rmtree(runs / "run")
    with pytest.raises(RecipeError) as caught:
        pack_sweep(shorter, runs, tmp_path / "results")
    told = "holds a run of another recipe (train.max_steps is None there, 1 here)"
    assert str(caught.value) == f"{packed} {told}; remove it, or choose another folder with --out"
    assert contents(tmp_path / "results") == before
    assert pack_sweep(shorter, runs, tmp_path / "elsewhere") == len(finished)


def test_a_cell_around_another_classifier_than_the_packed_one_is_not_written_over_it(packed, runs, tmp_path):
    """Both are of the sweep's recipe, which does not say the digest."""
    borrowed = dataclasses.replace(TINY, classifier=Classifier(width=4, from_run="runs/cohen"))
    for folder, digest in ((runs / "run", "a" * 64), (packed, "b" * 64)):
        classifier = dataclasses.replace(borrowed.classifier, sha256=digest)
        (folder / "recipe.yaml").write_text(dataclasses.replace(borrowed, classifier=classifier).to_yaml())
    sweep = Sweep("tiny", tmp_path / "sweep.yaml", (cell(recipe=borrowed),), ())
    with pytest.raises(RecipeError, match=r"classifier\.sha256 is bbb"):
        pack_sweep(sweep, runs, tmp_path / "results")


def test_the_same_training_certified_once_more_is_packed_over_itself(packed, runs, tmp_path):
    more = dataclasses.replace(TINY.certify, n_estimate=60)
    shutil.rmtree(runs / "run/certify")
    certify_run(Request(runs / "run", more), device=CPU)
    sweep = Sweep("tiny", tmp_path / "sweep.yaml", (cell(recipe=dataclasses.replace(TINY, certify=more)),), ())
    assert pack_sweep(sweep, runs, tmp_path / "results") == 1
    assert yaml.safe_load((packed / "recipe.yaml").read_text())["certify"]["n_estimate"] == 60


def test_records_of_weights_that_were_trained_again_are_not_packed_beside_these(runs, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    model = runs / "run" / "model.safetensors"
    with safe_open(model, framework="pt") as file:
        trained, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    save_file({name: tensor + tensor.is_floating_point() for name, tensor in trained.items()}, model, about)
    path, said = tmp_path / "mine.yaml", []
    path.write_text("recipe: base.yaml\n")
    sweep = Sweep("mine", path, (cell(),), ())
    assert pack_sweep(sweep, runs, tmp_path / "results", report=lambda it, what: said.append(what)) == 0
    [sentence] = said
    assert "run holds records of other weights than those of its model.safetensors; remove" in sentence
    assert not (tmp_path / "results").exists()


def test_no_path_of_the_machine_is_packed():
    recipe = Recipe(data=Data(kind="cifar_backgrounds", size=48, root="/data/cifar", backgrounds="scenes"))
    assert portable(recipe).data == Data(kind="cifar_backgrounds", size=48, backgrounds="scenes")
    assert portable(TINY) is TINY
    with pytest.raises(ValueError, match=r"data\.root .* must be a relative path"):
        portable(Recipe(data=Data(kind="folder", root="C:\\photos")))
    with pytest.raises(ValueError, match=r"classifier\.from_run .* must be a relative path"):
        portable(Recipe(classifier=Classifier(from_run="/runs/cohen")))
    assert portable(Recipe(classifier=Classifier(from_run="runs/cohen"))).classifier.from_run == "runs/cohen"


def test_masks_are_bytes_with_the_place_of_the_object(runs):
    with zipfile.ZipFile(runs / "run" / "masks.npz") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    with np.load(runs / "run" / "masks.npz") as arrays:
        assert set(arrays.files) == {"masks", "largest", "indices", "box"}
        assert (arrays["masks"].shape, arrays["masks"].dtype) == ((6, 24, 24), np.uint8)
        assert arrays["indices"].tolist() == list(range(6))
        assert 0 < arrays["masks"].mean() < 255
        assert arrays["masks"].max(axis=(1, 2)).tolist() == 6 * [255]
        assert arrays["largest"].shape == (6,)
        assert np.all((arrays["largest"] > 0) & (arrays["largest"] <= 1))
        assert arrays["box"].shape == (6, 4)


def test_masks_are_of_the_first_certified_images(trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "run")
    save_average_masks(run, dataclasses.replace(TINY.certify, every=3), device=CPU)
    with np.load(run / "masks.npz") as arrays:
        assert arrays["indices"].tolist() == [0, 3, 6, 9, 12, 15]


def test_masks_have_the_noise_of_the_certifications_seed(trained, tmp_path):
    run, made = shutil.copytree(trained, tmp_path / "run"), []
    for seed in (5, 5, 6):
        save_average_masks(run, dataclasses.replace(TINY.certify, seed=seed), device=CPU)
        made.append((run / "masks.npz").read_bytes())
    assert made[0] == made[1] != made[2]


def test_a_mask_is_the_mean_over_its_draws_and_channels(trained, tmp_path, monkeypatch):
    run = shutil.copytree(trained, tmp_path / "run")
    recipe, benchmark, _ = load_run(run, CPU)
    seen = []

    class Random:
        def stages(self, images, generator):
            seen.append(torch.rand(images.shape, generator=generator))
            std = torch.ones(1, 1, 1, 1)
            return [Release(images, std, std), Release(images, seen[0], std)], images

    monkeypatch.setattr(masks, "load_run", lambda folder, device: (recipe, benchmark, Random()))
    save_average_masks(run, TINY.certify, device=CPU)
    [weights] = seen
    assert len(weights) == 6 * masks.MASK_DRAWS
    with np.load(run / "masks.npz") as arrays:
        for image in range(6):
            mean = weights[image * masks.MASK_DRAWS : (image + 1) * masks.MASK_DRAWS].numpy().mean(axis=(0, 1))
            assert arrays["largest"][image] == pytest.approx(mean.max(), rel=1e-5)
            assert np.abs(arrays["masks"][image] - 255 * mean / mean.max()).max() < 0.51


def test_what_an_earlier_packing_left_goes(runs, tmp_path):
    pack_cell(cell(keep_weights=True), runs / "run", tmp_path / "packed")
    plain = dataclasses.replace(TINY, method="cohen")
    (runs / "run" / "train.jsonl").unlink()
    pack_cell(cell(recipe=plain, vote=0), runs / "run", tmp_path / "packed")
    assert not {"model.safetensors", "train.jsonl", "vote.json", "masks.npz"} & contents(tmp_path / "packed").keys()
