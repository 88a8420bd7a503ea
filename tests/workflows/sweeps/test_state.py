"""What is left of a cell, from the files in its folder."""

import dataclasses
import json
import shutil

import pytest

from ars.recipes.recipe import RecipeError
from ars.runs.records import RecordError
from ars.workflows.stages import save_average_masks
from ars.workflows.sweeps.state import Left, remaining_work
from ars.workflows.weights import round_weights

from ...conftest import CPU, TINY
from .conftest import cell, certified, voted


@pytest.mark.parametrize("part", ["train", "rounding", "images", "vote", "masks"])
def test_a_cell_that_lacks_anything_is_not_done(part):
    nothing = Left(train=False, epochs=0, rounding=False, images=0, vote=False, masks=False)
    assert nothing.done
    assert not dataclasses.replace(nothing, **{part: 1}).done


def test_a_cell_is_finished_step_by_step(run, tmp_path):
    assert str(remaining_work(cell(), tmp_path / "none")) == "train 1 epochs, certify 6 images, vote, masks"
    assert str(remaining_work(cell(), run)) == "vote, masks"
    voted(run)
    save_average_masks(run, TINY.certify, device=CPU)
    assert remaining_work(cell(), run).done
    assert remaining_work(cell(vote=0), run).done
    voted(run, draws=99)
    assert str(remaining_work(cell(), run)) == "vote"
    voted(run, model="another")
    assert str(remaining_work(cell(), run)) == "vote"
    (run / "certify/test/shard-00000.jsonl").unlink()
    assert remaining_work(cell(), run).images == 6
    (run / "model.safetensors").unlink()
    assert (remaining_work(cell(), run).train, remaining_work(cell(), run).epochs) == (True, 1)
    (run / "checkpoint.safetensors").touch()  # then the epochs of the log need not be repeated
    assert (remaining_work(cell(), run).train, remaining_work(cell(), run).epochs) == (True, 0)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"method": "cohen"}, "train 1 epochs, certify 6 images, vote"),
        ({"method": "cohen", "train": dataclasses.replace(TINY.train, epochs=7, max_steps=5)},
         "train to step 5 (at most 7 epochs), certify 6 images, vote"),
    ],
)  # fmt: skip
def test_a_cell_needs_masks_only_of_a_method_with_one_and_names_its_last_step(tmp_path, changes, left):
    assert str(remaining_work(cell(recipe=dataclasses.replace(TINY, **changes)), tmp_path / "none")) == left


def test_answers_of_weights_that_were_not_rounded_do_not_stand_for_rounded_ones(run):
    with_records = shutil.copytree(run, run.with_name("certified"))
    voted(run)
    shutil.rmtree(run / "certify")
    for folder in (with_records, run):
        with pytest.raises(RecordError, match="not rounded to bf16"):
            remaining_work(cell(weights="bf16"), folder)
    (run / "vote.json").unlink()
    assert str(remaining_work(cell(weights="bf16"), run)) == "round, certify 6 images, vote, masks"
    round_weights(run / "model.safetensors")
    assert str(remaining_work(cell(weights="bf16"), run)) == "certify 6 images, vote, masks"
    with pytest.raises(RecipeError, match="rounded to bf16"):
        remaining_work(cell(), run)


def test_more_images_are_left_but_other_settings_are_refused(run):
    assert remaining_work(certified(examples=9), run).images == 3
    assert remaining_work(certified(examples=2), run).images == 0
    assert remaining_work(certified(precision="auto"), run).images == 0  # begun in float32, and stays so
    with pytest.raises(ValueError, match=r"alpha=0\.05, .* 0\.1"):
        remaining_work(certified(alpha=0.1), run)
    with pytest.raises(ValueError, match="another recipe"):
        remaining_work(cell(recipe=dataclasses.replace(TINY, sigma=0.1)), run)


def test_a_run_that_pinned_its_classifier_is_still_the_cells(run):
    def around(digest):
        classifier = dataclasses.replace(TINY.classifier, from_run="runs/cohen", sha256=digest)
        return dataclasses.replace(TINY, classifier=classifier)

    (run / "recipe.yaml").write_text(around("f" * 64).to_yaml())
    assert str(remaining_work(cell(recipe=around(None)), run)) == "vote, masks"
    with pytest.raises(ValueError, match="another recipe"):
        remaining_work(cell(recipe=around("0" * 64)), run)


def test_runs_of_other_versions_say_what_to_remove(run):
    settings = json.loads((run / "certify/test/settings.json").read_text())
    settings["settings"].pop("tolerance")
    (run / "certify/test/settings.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"another version.* remove .*certify/test"):
        remaining_work(cell(), run)
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(recipe + "novel: 3\n")
    with pytest.raises(ValueError, match=r"novel.*another version.* remove .*run"):
        remaining_work(cell(), run)
    (run / "certify/test/settings.json").unlink()
    (run / "certify/test/shard-00000.jsonl").unlink()
    (run / "recipe.yaml").write_text(recipe.replace("share: 0.5\n", ""))  # a key that came later has its default
    assert remaining_work(cell(), run).images == 6
