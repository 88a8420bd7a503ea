"""Small, portable, the same bytes each time."""

import dataclasses
import gzip
import json
import shutil

import pytest
import yaml
from safetensors import safe_open
from safetensors.torch import save_file

from ars.data.settings import Data
from ars.recipes.recipe import Classifier, RecipeError
from ars.runs.records import Record
from ars.runs.shards import merge
from ars.workflows.certify import certify_run
from ars.workflows.request import Request
from ars.workflows.sweeps.file import portable
from ars.workflows.sweeps.pack import pack_cell, pack_sweep
from ars.workflows.sweeps.plan import make_plan

from ...conftest import CPU, TINY, contents
from .conftest import cell, certified, sweep_of


@pytest.fixture
def packed(finished, tmp_path):
    """A sweep of one cell that was packed."""
    (tmp_path / "sweep.yaml").write_text("the sweep")
    assert pack_sweep(sweep_of(tmp_path, cell()), tmp_path, tmp_path / "results") == 1
    return tmp_path / "results" / "tiny" / "run"


@pytest.fixture
def pack(finished, tmp_path):
    """Pack the finished run as a cell; what is there then."""

    def make(name="packed", **changes):
        pack_cell(cell(**changes), finished, tmp_path / name)
        return contents(tmp_path / name)

    return make


def around(digest):
    """The recipe with the classifier of another run."""
    return dataclasses.replace(TINY, classifier=Classifier(width=4, from_run="runs/cohen", sha256=digest))


def test_what_is_packed_is_all_that_is_needed(finished, tmp_path):
    size = pack_cell(cell(), finished, tmp_path / "packed")
    there = contents(tmp_path / "packed")
    assert there.keys() == {
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
    assert size == sum(map(len, there.values())) < 10_000
    timing = json.loads(there["timing.json"])
    assert timing.keys() == {"train_seconds", "certify_seconds", "vote_seconds"}
    assert timing["vote_seconds"] == 3.0
    lines = gzip.decompress(there["certify/test/records.jsonl.gz"]).decode().splitlines()
    assert [Record.from_json(line) for line in lines] == list(merge(finished / "certify/test").records)
    assert yaml.safe_load(there["recipe.yaml"]) == yaml.safe_load(TINY.to_yaml())


def test_attacks_are_packed_with_their_certificates(finished, tmp_path):
    (finished / "attack").mkdir()
    (finished / "attack" / "test.json").write_text("attacks")
    (finished / "attack" / "more.json").write_text("attacks on records that are not packed")
    pack_cell(cell(), finished, tmp_path / "packed")
    assert contents(tmp_path / "packed" / "attack") == {"test.json": b"attacks"}
    (finished / "attack" / "test.json").unlink()
    pack_cell(cell(), finished, tmp_path / "packed")  # the packed model may have been attacked where it is
    assert contents(tmp_path / "packed" / "attack") == {"test.json": b"attacks"}


def test_if_the_sweep_asks_for_fewer_images_all_are_packed_and_the_recipe_says_so(pack):
    there = pack(recipe=certified(examples=2).recipe)
    lines = gzip.decompress(there["certify/test/records.jsonl.gz"]).splitlines()
    assert yaml.safe_load(there["recipe.yaml"])["certify"]["examples"] == len(lines) == 6


def test_the_digest_of_anothers_classifier_is_packed(finished, pack):
    """The run has written it down, and the sweep file does not state it."""
    (finished / "recipe.yaml").write_text(around("a" * 64).to_yaml())
    assert yaml.safe_load(pack(recipe=around(None))["recipe.yaml"])["classifier"]["sha256"] == "a" * 64


def test_packing_twice_gives_the_same_bytes_and_removes_what_an_earlier_packing_left(finished, pack, monkeypatch):
    one = pack("one", keep_weights=True)
    monkeypatch.setattr("time.time", lambda: 2e9)  # which gzip would write into its header
    assert pack("two", keep_weights=True) == one
    assert "model.safetensors" in one
    (finished / "train.jsonl").unlink()
    there = pack("one", recipe=dataclasses.replace(TINY, method="cohen"), vote=0)
    assert not {"model.safetensors", "train.jsonl", "vote.json", "masks.npz"} & there.keys()


def test_images_are_packed_only_if_they_may_be_shown(finished, pack):
    """Those of the embedded benchmark may; the run has stages of three images."""
    stages, other = "certify/test/stages.npz", dataclasses.replace(TINY, data=Data("cifar_backgrounds", size=32))
    assert (finished / stages).exists()
    assert stages in pack(keep_weights=True)
    assert stages not in pack("cifar", recipe=other, keep_weights=True)
    assert stages not in pack()


def test_unfinished_cells_are_left_out_and_named(packed, finished, tmp_path):
    said = {}
    sweep = sweep_of(tmp_path, cell(), cell(name="other"))
    assert pack_sweep(sweep, tmp_path, tmp_path / "new", report=lambda one, what: said.update({one.name: what})) == 1
    assert said["other"] == "left out: train 1 epochs, certify 6 images, vote, masks"
    assert sorted(path.name for path in (tmp_path / "new/tiny").iterdir()) == ["run", "sweep.yaml"]
    assert (tmp_path / "new/tiny/sweep.yaml").read_text() == "the sweep"


def plan_elsewhere(tmp_path, one):
    """What is left on a machine that has the packed results alone."""
    [row] = make_plan(sweep_of(tmp_path, one), tmp_path / "elsewhere", tmp_path / "results").rows
    return row


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, True),
        ({"vote": 0}, True),
        ({"recipe": certified(examples=2).recipe}, True),
        ({"recipe": certified(examples=7).recipe}, False),
        ({"name": "another"}, False),
        ({"keep_weights": True}, False),
        ({"vote": 99}, False),
    ],
)
def test_a_packed_cell_is_done_unless_more_is_asked_for_than_was_packed(packed, tmp_path, changes, done):
    row = plan_elsewhere(tmp_path, cell(**changes))
    assert (row.done, row.packed) == (done, done)
    assert not done or row.seconds == 0


@pytest.mark.parametrize(
    "missing", ["vote.json", "masks.npz", "timing.json", "recipe.yaml", "certify/test/settings.json"]
)
def test_a_cell_that_is_not_completely_packed_is_not_done(packed, tmp_path, missing):
    (packed / missing).unlink()
    assert not plan_elsewhere(tmp_path, cell()).done


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (cell(recipe=dataclasses.replace(TINY, seed=5)), "(seed is 0 there, 5 here)"),
        (certified(alpha=0.01), "alpha=0.05"),
    ],
)
def test_packed_cells_of_another_training_or_certification_are_refused(packed, tmp_path, one, words):
    row = plan_elsewhere(tmp_path, one)
    assert (row.done, row.left) == (False, None)
    assert words in row.problem


def test_a_packed_recipe_is_the_cells_wherever_its_data_is(packed, tmp_path):
    there = dataclasses.replace(TINY, data=Data(kind="cifar_backgrounds", root="/data", backgrounds="/scenes"))
    (packed / "recipe.yaml").write_text(portable(there).to_yaml())
    assert plan_elsewhere(tmp_path, cell(recipe=there)).packed


def test_a_run_counts_before_what_was_packed_of_it(packed, tmp_path):
    [row] = make_plan(sweep_of(tmp_path, cell()), tmp_path, tmp_path / "results").rows
    assert (row.done, row.packed) == (True, False)


def test_packing_on_another_machine_leaves_what_was_packed_as_it_is(packed, tmp_path):
    before, said = contents(packed), []
    sweep = sweep_of(tmp_path, cell())
    count = pack_sweep(sweep, tmp_path / "elsewhere", tmp_path / "results", report=lambda _, what: said.append(what))
    assert (count, said, contents(packed)) == (0, ["packed before"], before)


@pytest.mark.parametrize("finished_cells", [["run"], ["new"], ["new", "run"]])
def test_packed_cells_of_another_training_are_not_written_over(packed, finished, tmp_path, finished_cells):
    """Whether the cell that is in the way is finished or not, and whichever comes first."""
    recipe = dataclasses.replace(TINY, train=dataclasses.replace(TINY.train, max_steps=1))
    (finished / "recipe.yaml").write_text(recipe.to_yaml())
    shorter = sweep_of(tmp_path, cell(name="new", recipe=recipe), cell(recipe=recipe))
    (packed / "model.safetensors").write_bytes(b"weights")
    before = contents(tmp_path / "results")
    if "new" in finished_cells:
        shutil.copytree(finished, tmp_path / "new")
    if "run" not in finished_cells:
        shutil.rmtree(finished)
    with pytest.raises(RecipeError, match=r"run .*train\.max_steps is None there, 1 here"):
        pack_sweep(shorter, tmp_path, tmp_path / "results")
    assert contents(tmp_path / "results") == before
    assert pack_sweep(shorter, tmp_path, tmp_path / "elsewhere") == len(finished_cells)


def test_a_cell_around_another_classifier_than_the_packed_one_is_not_written_over_it(packed, finished, tmp_path):
    """Both are of the sweep's recipe, which does not state the digest."""
    for folder, digest in ((finished, "a" * 64), (packed, "b" * 64)):
        (folder / "recipe.yaml").write_text(around(digest).to_yaml())
    with pytest.raises(RecipeError, match=r"classifier\.sha256 is bbb"):
        pack_sweep(sweep_of(tmp_path, cell(recipe=around(None))), tmp_path, tmp_path / "results")


def test_the_same_training_certified_once_more_is_packed_over_itself(packed, finished, tmp_path):
    more = certified(n_estimate=60)
    shutil.rmtree(finished / "certify")
    certify_run(Request(finished, more.recipe.certify), device=CPU)
    assert pack_sweep(sweep_of(tmp_path, more), tmp_path, tmp_path / "results") == 1
    assert yaml.safe_load((packed / "recipe.yaml").read_text())["certify"]["n_estimate"] == 60


def test_records_of_weights_that_were_trained_again_are_not_packed_beside_these(finished, tmp_path):
    model, said = finished / "model.safetensors", []
    with safe_open(model, framework="pt") as file:
        trained, about = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    save_file({name: tensor + tensor.is_floating_point() for name, tensor in trained.items()}, model, about)
    sweep = sweep_of(tmp_path, cell())
    assert pack_sweep(sweep, tmp_path, tmp_path / "results", report=lambda _, what: said.append(what)) == 0
    [sentence] = said
    assert "other weights" in sentence
    assert not (tmp_path / "results").exists()
