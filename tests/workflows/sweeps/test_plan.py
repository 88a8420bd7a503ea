"""The work of a sweep that is left, how long it may take, and what a time budget allows."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from ars.data.settings import Data
from ars.recipes.recipe import Start, cell_name
from ars.recipes.start_sizes import shared_folder, start_of
from ars.workflows.sweeps.file import Rough
from ars.workflows.sweeps.plan import Budget, Recorded, Times, make_plan
from ars.workflows.sweeps.state import Left

from ...conftest import TINY
from .conftest import cell, sweep_of


def sized(k, method="cohen", epochs=10):
    recipe = dataclasses.replace(TINY, method=method, train=dataclasses.replace(TINY.train, epochs=epochs))
    return cell(recipe=recipe, k=k)


def started(k, name=None, method="cohen", sigma=TINY.sigma, through=(64,)):
    """A cell of ten epochs whose classifier begins with eight epochs at size 32."""
    data, start = Data("cifar_backgrounds", size=k), Start(32, 8, through)
    recipe = dataclasses.replace(sized(k, method).recipe, sigma=sigma, data=data, start=start)
    name = name or cell_name(method, k, sigma, recipe.seed)
    return dataclasses.replace(sized(k, method), name=name, recipe=recipe, vote=0)


def seconds_of(cells, runs, **epoch):
    """What each cell is expected to take where an epoch of a method takes so long at side k."""
    (side, epoch), methods = epoch.popitem(), ("cohen", "unicr")
    rough = (Rough(methods, k=int(side[1:]), epoch=epoch, image=0.0),)
    return [row.seconds for row in make_plan(sweep_of(runs, *cells, rough=rough), runs).rows]


def test_times_come_from_finished_cells_first():
    schedule = TINY.certify.schedule
    recorded = [
        Recorded(("cohen",), 64, 4.0, 0.5, 10.0, schedule),
        Recorded(("cohen",), 64, 6.0, 0.7, 20.0, schedule),
        Recorded(("cohen",), 32, 1.0, 9.0, 3.0, dataclasses.replace(schedule, n_max=77)),
    ]
    times = Times(recorded, [Rough(("unicr",), k=32, image=7.0)])
    assert times.of(sized(64), "epoch") == 5.0
    assert times.of(sized(32), "epoch") == 1.0
    assert times.of(sized(96), "epoch") == pytest.approx(5.0 * 2.25)  # the nearest side is 64
    assert times.of(sized(32), "image") == pytest.approx(0.6 / 4)  # at side 32 the draws were others
    assert times.of(sized(64, "unicr"), "image") == 28.0
    assert times.of(sized(64, "unicr"), "vote") == 15.0  # as Cohen et al.'s, the only one that is known
    assert times.of(sized(96, "adaptive"), "epoch") == pytest.approx(5.0 * 2.25)
    left = Left(train=True, epochs=3, rounding=True, images=6, vote=True, masks=True)
    assert times.estimate(sized(64), left) == pytest.approx(3 * 5 + 6 * 0.6 + 15)
    assert Times([], times.rough).estimate(sized(64, "unicr"), left) is None
    certified_only = dataclasses.replace(left, train=False, epochs=0, vote=False)
    assert times.estimate(sized(64, "unicr"), certified_only) == 6 * 28.0


def test_stated_times_are_scaled_to_the_machine():
    recorded = [
        Recorded((method,), 32, seconds) for method, seconds in [("cohen", 4.0), ("unicr", 6.0), ("sukenik", 90.0)]
    ]
    stated = [Rough(("cohen", "unicr", "sukenik"), k=32, epoch=2.0), Rough(("cohen",), k=96, epoch=10.0, vote=5.0)]
    times = Times(recorded, stated)
    assert times.of(sized(96), "epoch") == 30.0  # 3 times as long as stated, in the median; not 9 times that at k = 32
    assert times.of(sized(96), "vote") == 5.0
    assert times.of(sized(32), "epoch") == 4.0


def test_a_plan_learns_from_a_finished_cell_and_names_a_spoilt_one(finished, tmp_path):
    (finished / "timing.json").write_text('{"train_seconds": 8.0}')
    spoilt = shutil.copytree(finished, tmp_path / "spoilt")
    (spoilt / "certify/test/settings.json").write_text("{")
    more = dataclasses.replace(TINY, seed=1, train=dataclasses.replace(TINY.train, epochs=5))
    cells = (cell(), cell(name="next", recipe=more), cell(name="spoilt"))
    plan = make_plan(sweep_of(tmp_path, *cells[:2]), tmp_path)
    assert (plan.rows[0].done, plan.left) == (True, 1)
    images = sum(json.loads(line)["seconds"] for line in (finished / "certify/test/shard-00000.jsonl").open())
    assert plan.seconds == pytest.approx(5 * 8.0 + images + 3.0)
    plan = make_plan(sweep_of(tmp_path, *cells), tmp_path)
    assert "settings.json" in plan.rows[2].problem
    assert (plan.left, plan.seconds) == (2, None)


def test_a_start_counts_once_and_until_it_is_there(tmp_path):
    cells = (
        started(64, "one", through=()),
        started(64, "alike", "unicr", through=()),
        started(64, "other", sigma=1.0, through=()),
    )
    assert seconds_of(cells, tmp_path, k64=5.0) == [60.0, 50.0, 60.0]
    shared = shared_folder(tmp_path, start_of(cells[0].recipe))
    shared.mkdir()
    (shared / "model.safetensors").touch()
    assert seconds_of(cells, tmp_path, k64=5.0) == [50.0, 50.0, 60.0]
    further = started(128, "far")  # the classifier's start is there, the method's at 64 is not
    assert seconds_of((further,), tmp_path, k128=16.0) == [16.0 * (10 + 10 / 4)]
    assert seconds_of((further,), tmp_path / "elsewhere", k128=16.0) == [16.0 * (10 + 10 / 4 + 8 / 16)]


def test_a_cell_that_is_the_start_of_another_is_trained_once(tmp_path):
    def seconds(cells):
        return seconds_of(cells, tmp_path, k64=4.0)

    small, large, alone = started(64), started(128), 4.0 * (10 + 8 / 4)
    assert seconds((small, large)) == [alone, 160.0]
    assert seconds((large, small)) == [alone + 160.0, 0.0]
    shared = shared_folder(tmp_path, start_of(large.recipe))
    for trained in (shared, tmp_path / small.name):
        trained.mkdir()
        (trained / "recipe.yaml").write_text(small.recipe.to_yaml())
        save_file({"a": np.zeros(1, np.float32)}, trained / "model.safetensors", metadata={"about": "{}"})
        assert seconds((small, large)) == [0.0, 160.0]
        (trained / "model.safetensors").unlink()
    (shared / "recipe.yaml").unlink()
    assert seconds((large,)) == [alone + 160.0]
    labelled = [dataclasses.replace(small, name=f"{small.name}-{label}") for label in "ab"]
    assert seconds((*labelled, large)) == [alone, 40.0, 200.0]  # neither is the other, nor the start


def test_begun_trainings_count_less(tmp_path):
    large = started(128)

    def begin(folder, recipe, epochs):
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(recipe.to_yaml())
        (folder / "checkpoint.safetensors").touch()
        (folder / "train.jsonl").write_text("{}\n" * epochs)

    assert seconds_of((large,), tmp_path, k128=16.0) == [16.0 * (10 + 10 / 4 + 8 / 16)]
    begin(shared_folder(tmp_path, start_of(large.recipe)), start_of(large.recipe), 4)
    assert seconds_of((large,), tmp_path, k128=16.0) == [16.0 * (10 + 6 / 4)]
    begin(tmp_path / large.name, large.recipe, 3)
    assert seconds_of((large,), tmp_path, k128=16.0) == [16.0 * 7]


def test_work_ends_before_a_piece_that_would_end_too_late():
    # asked after pieces of 10 seconds; at 50 one more would end at 60, and then it must still be saved
    ticks = iter([0.0, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 60.0])
    budget = Budget(1, clock=lambda: next(ticks))
    enough = budget.watch()
    assert [enough() for _ in range(5)] == [False, False, False, False, True]
    assert budget.spent
    assert budget.watch()()


def test_a_first_piece_that_is_expected_to_take_too_long_is_not_begun():
    budget = Budget(1, clock=lambda: 0.0)
    assert not budget.watch(57)()
    assert budget.watch(59)()


def test_within_a_piece_time_is_over_when_there_is_just_enough_left_to_save():
    ticks = iter([0.0, 0.0, 57.9, 58.1])
    budget = Budget(1, clock=lambda: next(ticks))
    assert [budget.over() for _ in range(3)] == [False, False, True]
    assert budget.spent


def test_no_minutes_are_no_limit():
    now = 0.0
    budget = Budget(clock=lambda: now)
    enough = budget.watch()
    now = 1e9
    assert not enough()
    assert not budget.over()
    with pytest.raises(ValueError, match="--minutes"):
        Budget(-1)
