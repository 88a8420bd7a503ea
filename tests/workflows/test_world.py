import subprocess
import sys

import pytest

from ars.workflows.world import World, WorldError, read_team, read_world


def test_without_a_launcher_there_is_one_process():
    assert read_world({}) == World(0, 1, None)


def test_torchrun_is_read_first():
    slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
    assert read_world({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", **slurm}) == World(3, 8, 1)


def test_srun_gives_rank_and_gpu():
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    assert read_world({"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "1", **step}) == World(5, 6, 1)


def test_a_batch_script_without_srun_is_one_process():
    assert read_world({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "6"}) == World()


@pytest.mark.parametrize(("least", "step"), [(0, 1), (1, 1), (4, 2)])
def test_array_tasks_are_counted_from_the_first(least, step):
    tasks = range(least, least + 3 * step, step)
    array = {"SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": str(least), "SLURM_ARRAY_TASK_STEP": str(step)}
    assert [read_world({"SLURM_ARRAY_TASK_ID": str(task), **array}).rank for task in tasks] == [0, 1, 2]


def test_an_array_of_steps_gives_every_process_its_own_rank():
    ranks = {
        read_world({
            "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_PROCID": str(process),
            "SLURM_NTASKS": "3",
        }).rank
        for task in range(2) for process in range(3)
    }  # fmt: skip
    assert ranks == set(range(6))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "0"}, "WORLD_SIZE is not set"),
        ({"WORLD_SIZE": "2"}, "RANK is not set"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK must be a whole number, got 'one'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "rank -1 of 2"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "rank 0 of 0"),
        ({"SLURM_PROCID": "1"}, "SLURM_NTASKS is not set"),
        ({"SLURM_ARRAY_TASK_ID": "1"}, "SLURM_ARRAY_TASK_COUNT is not set"),
        (
            {"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"},
            "array without gaps",
        ),
    ],
)
def test_variables_that_do_not_fit_together_get_one_sentence(variables, words):
    with pytest.raises(WorldError, match=words) as caught:
        read_world(variables)
    assert "\n" not in str(caught.value)


def test_only_torchrun_makes_a_team():
    slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
    assert read_team(slurm) == World()
    assert read_team({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", **slurm}) == World(3, 8, 1)
    with pytest.raises(WorldError, match="WORLD_SIZE is not set"):
        read_team({"RANK": "0"})


def test_the_ranks_share_all_shards_among_them():
    shares = [World(rank, 3).share(8) for rank in range(3)]
    assert sorted(number for share in shares for number in share) == list(range(8))
    assert list(World(5, 6).share(3)) == []


def test_reading_the_world_loads_no_torch():
    code = "import sys, ars.workflows.world; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
