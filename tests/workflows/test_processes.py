import pytest

from ars.workflows.processes import World, WorldError, read_team, read_world

BY_HAND = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
TORCHRUN = {**BY_HAND, "TORCHELASTIC_RUN_ID": "none"}
ARRAY = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
PROCESS = {"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize(
    ("variables", "world", "team"),
    [
        ({}, World(0, 1, None), World()),
        (BY_HAND, World(3, 8, 1), World(3, 8, 1)),
        (TORCHRUN, World(3, 8, 1, together=True), World(3, 8, 1, together=True)),
        ({**BY_HAND, **PROCESS, **ARRAY}, World(3, 8, 1), World(3, 8, 1)),  # torchrun goes first
        ({**PROCESS, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}, World(5, 6, 1), World()),  # only torchrun makes a team
        ({**PROCESS, "SLURM_JOB_ID": "7"}, World(), World()),  # a batch script without srun
    ],
)
def test_the_rank_is_that_of_the_launcher(variables, world, team):
    assert read_world(variables) == world
    assert read_team(variables) == team


@pytest.mark.parametrize(("least", "step"), [(0, 1), (1, 1), (4, 2)])
def test_array_tasks_are_counted_from_the_first(least, step):
    tasks = range(least, least + 3 * step, step)
    array = {"SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": str(least), "SLURM_ARRAY_TASK_STEP": str(step)}
    assert [read_world({"SLURM_ARRAY_TASK_ID": str(task), **array}).rank for task in tasks] == [0, 1, 2]


def test_every_process_of_an_array_of_steps_has_its_own_rank():
    ranks = {
        read_world({**ARRAY, "SLURM_ARRAY_TASK_ID": str(task), "SLURM_PROCID": str(process), "SLURM_NTASKS": "3"}).rank
        for task in range(2)
        for process in range(3)
    }
    assert ranks == set(range(6))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK .*'one'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "rank -1 of 2"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "rank 0 of 0"),
        ({"SLURM_PROCID": "1"}, "SLURM_NTASKS"),
        ({"SLURM_ARRAY_TASK_ID": "1"}, "SLURM_ARRAY_TASK_COUNT"),
        ({"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"}, "gaps"),
    ],
)
def test_variables_that_do_not_fit_together_get_one_sentence(variables, words):
    with pytest.raises(WorldError, match=words) as caught:
        read_world(variables)
    assert "\n" not in str(caught.value)


def test_the_ranks_share_all_shards_among_them():
    shares = [World(rank, 3).share(8) for rank in range(3)]
    assert sorted(number for share in shares for number in share) == list(range(8))
    assert list(World(5, 6).share(3)) == []
