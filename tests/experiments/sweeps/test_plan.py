"""What is left of cells, from their files, and how long that may take."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from ars.certification.records import RecordError
from ars.cli.sweep import show
from ars.data.settings import Data
from ars.experiments.recipe import RecipeError, Start, cell_name
from ars.experiments.starting import shared_folder, start_of
from ars.experiments.sweeps.file import Cell, Rough, Sweep
from ars.experiments.sweeps.masks import save_average_masks
from ars.experiments.sweeps.plan import make_plan
from ars.experiments.sweeps.state import Left, what_is_left
from ars.experiments.sweeps.times import Figure, Times, rough_figures
from ars.experiments.voting import write_tally
from ars.experiments.weights import round_weights
from ars.report.tally import Tally

from ..conftest import CPU, TINY


def cell(**changes):
    usual = {"name": "run", "recipe": TINY, "k": None, "weights": "float32", "vote": 100, "keep_weights": False}
    return Cell(**{**usual, **changes})


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def voted(run, **changes):
    model = json.loads((run / "certify/test/settings.json").read_text())["model"]
    tally = Tally(images=300, draws=100, correct=30, seed=0, seconds=3.0, precision="float32", model=model)
    write_tally(run, dataclasses.replace(tally, **changes), begun=False)


@pytest.mark.parametrize("part", ["train", "rounding", "images", "vote", "masks"])
def test_a_cell_that_lacks_anything_is_not_done(part):
    nothing = Left(train=False, epochs=0, rounding=False, images=0, vote=False, masks=False)
    assert nothing.done
    assert not dataclasses.replace(nothing, **{part: 1}).done


def test_a_cell_is_done_step_by_step(run, tmp_path):
    assert str(what_is_left(cell(), tmp_path / "none")) == "train 1 epochs, certify 6 images, vote, masks"
    assert str(what_is_left(cell(), run)) == "vote, masks"
    voted(run)
    save_average_masks(run, TINY.certify, device=CPU)
    assert what_is_left(cell(), run).done
    assert what_is_left(cell(vote=0), run).done
    voted(run, draws=99)
    assert str(what_is_left(cell(), run)) == "vote"
    voted(run, model="another")
    assert str(what_is_left(cell(), run)) == "vote"
    (run / "certify/test/shard-00000.jsonl").unlink()
    assert what_is_left(cell(), run).images == 6
    (run / "model.safetensors").unlink()
    assert (what_is_left(cell(), run).train, what_is_left(cell(), run).epochs) == (True, 1)
    (run / "checkpoint.safetensors").touch()  # what the log says is then still there
    assert (what_is_left(cell(), run).train, what_is_left(cell(), run).epochs) == (True, 0)


def test_a_training_that_ends_at_a_step_is_told_as_that(tmp_path):
    short = dataclasses.replace(TINY, method="cohen", train=dataclasses.replace(TINY.train, epochs=7, max_steps=5))
    told = "train to step 5 (at most 7 epochs), certify 6 images, vote"
    assert str(what_is_left(cell(recipe=short), tmp_path / "none")) == told


def test_answers_of_weights_that_were_not_rounded_do_not_stand_for_rounded_ones(run):
    shutil.copytree(run, with_records := run.with_name("certified"))
    voted(run)
    shutil.rmtree(run / "certify")
    for folder in (with_records, run):
        with pytest.raises(RecordError, match="answers of weights that were not rounded to bf16"):
            what_is_left(cell(weights="bf16"), folder)
    (run / "vote.json").unlink()
    assert str(what_is_left(cell(weights="bf16"), run)) == "round, certify 6 images, vote, masks"
    round_weights(run / "model.safetensors")
    assert str(what_is_left(cell(weights="bf16"), run)) == "certify 6 images, vote, masks"
    with pytest.raises(RecipeError, match="weights that were rounded to bf16; choose another folder"):
        what_is_left(cell(), run)


def test_more_images_are_left_but_other_settings_are_refused(run):
    def certified(**changes):
        return cell(recipe=dataclasses.replace(TINY, certify=dataclasses.replace(TINY.certify, **changes)))

    assert what_is_left(certified(examples=9), run).images == 3
    assert what_is_left(certified(examples=2), run).images == 0
    assert what_is_left(certified(precision="auto"), run).images == 0  # begun in float32, so it stays
    with pytest.raises(ValueError, match=r"records with alpha=0\.05, the sweep asks for 0\.1"):
        what_is_left(certified(alpha=0.1), run)
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        what_is_left(cell(recipe=dataclasses.replace(TINY, sigma=0.1)), run)


def test_a_method_without_a_mask_leaves_none(tmp_path):
    cohen = cell(recipe=dataclasses.replace(TINY, method="cohen"))
    assert str(what_is_left(cohen, tmp_path / "none")) == "train 1 epochs, certify 6 images, vote"


def test_a_run_that_pinned_its_classifier_is_still_the_cells(run):
    borrowing = dataclasses.replace(TINY, classifier=dataclasses.replace(TINY.classifier, from_run="runs/cohen"))
    pinned = dataclasses.replace(borrowing, classifier=dataclasses.replace(borrowing.classifier, sha256="f" * 64))
    (run / "recipe.yaml").write_text(pinned.to_yaml())
    assert str(what_is_left(cell(recipe=borrowing), run)) == "vote, masks"
    other = dataclasses.replace(borrowing, classifier=dataclasses.replace(borrowing.classifier, sha256="0" * 64))
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        what_is_left(cell(recipe=other), run)


def test_runs_of_other_versions_say_what_to_remove(run):
    settings = json.loads((run / "certify/test/settings.json").read_text())
    settings["settings"].pop("tolerance")
    (run / "certify/test/settings.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"written by another version.*for a sweep, remove .*certify/test"):
        what_is_left(cell(), run)
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(recipe + "novel: 3\n")
    with pytest.raises(ValueError, match=r"novel.*another version made this run; remove .*run to make it again"):
        what_is_left(cell(), run)
    (run / "certify/test/settings.json").unlink()
    (run / "certify/test/shard-00000.jsonl").unlink()
    (run / "recipe.yaml").write_text(recipe.replace("share: 0.5\n", ""))  # a key that came later has its default
    assert what_is_left(cell(), run).images == 6


def sized(k, method="cohen", epochs=10):
    recipe = dataclasses.replace(TINY, method=method, train=dataclasses.replace(TINY.train, epochs=epochs))
    return cell(recipe=recipe, k=k)


def test_times_come_from_finished_cells_first():
    schedule = TINY.certify.schedule
    recorded = [
        Figure("cohen", 64, 4.0, 0.5, 10.0, schedule),
        Figure("cohen", 64, 6.0, 0.7, 20.0, schedule),
        Figure("cohen", 32, 1.0, 9.0, 3.0, dataclasses.replace(schedule, n_max=77)),
    ]
    times = Times(recorded, rough_figures([Rough(("unicr",), k=32, image=7.0)]))
    assert times.of(sized(64), "epoch") == 5.0
    assert times.of(sized(32), "epoch") == 1.0
    assert times.of(sized(96), "epoch") == pytest.approx(5.0 * 2.25)  # the nearest side is 64
    assert times.of(sized(32), "image") == pytest.approx(0.6 / 4)  # that of 32 had other draws
    assert times.of(sized(64, "unicr"), "image") == 28.0
    assert times.of(sized(64, "unicr"), "vote") == 15.0  # as Cohen et al.'s, which alone are known
    assert times.of(sized(96, "adaptive"), "epoch") == pytest.approx(5.0 * 2.25)
    left = Left(train=True, epochs=3, rounding=True, images=6, vote=True, masks=True)
    assert times.estimate(sized(64), left) == pytest.approx(3 * 5 + 6 * 0.6 + 15)
    assert Times([], times.rough).estimate(sized(64, "unicr"), left) is None
    certified_only = dataclasses.replace(left, train=False, epochs=0, vote=False)
    assert times.estimate(sized(64, "unicr"), certified_only) == 6 * 28.0


def test_what_was_stated_for_a_side_is_scaled_to_the_machine():
    recorded = [
        Figure(method, 32, seconds, None, None)
        for method, seconds in [("cohen", 4.0), ("unicr", 6.0), ("sukenik", 90.0)]
    ]
    stated = [Rough(("cohen", "unicr", "sukenik"), k=32, epoch=2.0), Rough(("cohen",), k=96, epoch=10.0, vote=5.0)]
    times = Times(recorded, rough_figures(stated))
    assert (
        times.of(sized(96), "epoch") == 30.0
    )  # three times as long as stated, in the middle; not 9 times that of k = 32
    assert times.of(sized(96), "vote") == 5.0
    assert times.of(sized(32), "epoch") == 4.0


def test_a_plan_learns_from_a_finished_cell_and_names_a_spoilt_one(run, tmp_path):
    voted(run)
    save_average_masks(run, TINY.certify, device=CPU)
    (run / "timing.json").write_text('{"train_seconds": 8.0}')
    spoilt = shutil.copytree(run, tmp_path / "spoilt")
    (spoilt / "certify/test/settings.json").write_text("{")
    more = dataclasses.replace(TINY, seed=1, train=dataclasses.replace(TINY.train, epochs=5))
    cells = (cell(), cell(name="next", recipe=more), cell(name="spoilt"))
    plan = make_plan(Sweep("s", tmp_path / "s.yaml", cells[:2], ()), tmp_path)
    assert (plan.rows[0].done, plan.left) == (True, 1)
    images = sum(json.loads(line)["seconds"] for line in (run / "certify/test/shard-00000.jsonl").open())
    assert plan.seconds == pytest.approx(5 * 8.0 + images + 3.0)
    plan = make_plan(Sweep("s", tmp_path / "s.yaml", cells, ()), tmp_path)
    assert "settings.json cannot be read" in plan.rows[2].problem
    assert (plan.left, plan.seconds) == (2, None)


def test_the_machine_of_rough_figures_is_named_until_a_cell_is_finished_here(run, tmp_path):
    more = cell(name="next", recipe=dataclasses.replace(TINY, seed=1))
    stated = (Rough((TINY.method,), epoch=5.0, image=1.0, vote=2.0),)
    sweep = Sweep("s", tmp_path / "s.yaml", (cell(), more), stated, "one H200")
    assert show(sweep, make_plan(sweep, tmp_path / "none")).splitlines()[0].endswith(" s on one H200")
    voted(run)
    save_average_masks(run, TINY.certify, device=CPU)
    assert " on one H200" not in show(sweep, make_plan(sweep, tmp_path))


def test_a_start_counts_once_and_until_it_is_there(tmp_path):
    def started(name, method, sigma=0.5, through=(), k=64):
        data, start = Data("cifar_backgrounds", size=k), Start(32, 8, through)
        recipe = dataclasses.replace(sized(k, method).recipe, sigma=sigma, data=data, start=start)
        return dataclasses.replace(sized(k, method), name=name, recipe=recipe, vote=0)

    cells = (started("one", "cohen"), started("alike", "unicr"), started("other", "cohen", sigma=1.0))
    rough = (Rough(("cohen", "unicr"), k=64, epoch=5.0, image=0.0),)
    sweep = Sweep("s", tmp_path / "s.yaml", cells, rough)
    assert [row.seconds for row in make_plan(sweep, tmp_path).rows] == [60.0, 50.0, 60.0]
    shared = shared_folder(tmp_path, start_of(cells[0].recipe))
    shared.mkdir()
    (shared / "model.safetensors").touch()
    assert [row.seconds for row in make_plan(sweep, tmp_path).rows] == [50.0, 50.0, 60.0]
    further = started("far", "cohen", through=(64,), k=128)
    rough = (Rough(("cohen",), k=128, epoch=16.0, image=0.0),)
    plan = make_plan(Sweep("s", tmp_path / "s.yaml", (further,), rough), tmp_path)
    assert plan.seconds == 16.0 * (10 + 10 / 4)  # the classifier's is there, the method's at 64 is not
    plan = make_plan(Sweep("s", tmp_path / "s.yaml", (further,), rough), tmp_path / "elsewhere")
    assert plan.seconds == 16.0 * (10 + 10 / 4 + 8 / 16)


def test_a_cell_that_is_the_start_of_another_is_trained_once(tmp_path):
    def started(k):
        data, start = Data("cifar_backgrounds", size=k), Start(32, 8, (64,))
        recipe = dataclasses.replace(sized(k, "cohen").recipe, data=data, start=start)
        name = cell_name("cohen", k, recipe.sigma, recipe.seed)
        return dataclasses.replace(sized(k, "cohen"), name=name, recipe=recipe, vote=0)

    def seconds(cells):
        rough = (Rough(("cohen",), k=64, epoch=4.0, image=0.0),)
        return [row.seconds for row in make_plan(Sweep("s", tmp_path / "s.yaml", cells, rough), tmp_path).rows]

    small, large, alone = started(64), started(128), 4.0 * (10 + 8 / 4)
    assert seconds((small, large)) == [alone, 160.0]
    assert seconds((large, small)) == [alone + 160.0, 0.0]
    shared = shared_folder(tmp_path, start_of(large.recipe))
    for trained, left in ((shared, [0.0, 160.0]), (tmp_path / small.name, [0.0, 160.0])):
        trained.mkdir()
        (trained / "recipe.yaml").write_text(small.recipe.to_yaml())
        save_file({"a": np.zeros(1, np.float32)}, trained / "model.safetensors", metadata={"about": "{}"})
        assert seconds((small, large)) == left
        (trained / "model.safetensors").unlink()
    (shared / "recipe.yaml").unlink()
    assert seconds((large,)) == [alone + 160.0]
    labelled = [dataclasses.replace(small, name=f"{small.name}-{label}") for label in "ab"]
    assert seconds((*labelled, large)) == [alone, 40.0, 200.0]  # neither is the other, nor the start


def test_what_was_begun_counts_less(tmp_path):
    data, start = Data("cifar_backgrounds", size=128), Start(32, 8, (64,))
    recipe = dataclasses.replace(sized(128, "cohen").recipe, data=data, start=start)
    name = cell_name("cohen", 128, recipe.sigma, recipe.seed)
    large = dataclasses.replace(sized(128, "cohen"), name=name, recipe=recipe, vote=0)

    def seconds():
        rough = (Rough(("cohen",), k=128, epoch=16.0, image=0.0),)
        return make_plan(Sweep("s", tmp_path / "s.yaml", (large,), rough), tmp_path).seconds

    def begin(folder, recipe, epochs):
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(recipe.to_yaml())
        (folder / "checkpoint.safetensors").touch()
        (folder / "train.jsonl").write_text("{}\n" * epochs)

    assert seconds() == 16.0 * (10 + 10 / 4 + 8 / 16)
    begin(shared_folder(tmp_path, start_of(recipe)), start_of(recipe), 4)
    assert seconds() == 16.0 * (10 + 6 / 4)
    begin(tmp_path / name, recipe, 3)
    assert seconds() == 16.0 * 7
