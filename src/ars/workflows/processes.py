"""This process's share of the work: rank and world size from torchrun's or Slurm's variables; loads no torch.

Certification has no collectives: a rank takes the shards rank, rank + size, ... of a fixed list. Only the ranks of a
training communicate.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass


class WorldError(ValueError):
    """Inconsistent variables of a launcher."""


@dataclass(frozen=True)
class World:
    """One process of size processes; local is its number on its machine, which selects the GPU.

    together: torchrun has started them at the same time, and ends all if one fails.

    >>> World(rank=1, size=3).share(8)
    range(1, 8, 3)
    """

    rank: int = 0
    size: int = 1
    local: int | None = None
    together: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise WorldError(f"a rank must be at least 0 and below the world size, got rank {self.rank} of {self.size}")

    def share(self, shards: int) -> range:
        """The shards of this rank."""
        return range(self.rank, shards, self.size)

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"rank {self.rank} of {self.size}"


def read_world(variables: Mapping[str, str] = os.environ) -> World:
    """The world of torchrun (or RANK and WORLD_SIZE set by hand), else of Slurm's array and srun, else one process.

    If srun starts the tasks of an array, every process of every task is a rank.

    >>> read_world({"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_COUNT": "8", "SLURM_ARRAY_TASK_MIN": "1"}).name
    'rank 4 of 8'
    """
    if "RANK" in variables or "WORLD_SIZE" in variables:
        local = _number(variables, "LOCAL_RANK") if "LOCAL_RANK" in variables else None
        together = "TORCHELASTIC_RUN_ID" in variables
        return World(_number(variables, "RANK"), _number(variables, "WORLD_SIZE"), local, together)
    task, tasks = _array(variables)
    process, processes, local = _step(variables)
    return World(task * processes + process, tasks * processes, local)


def read_team(variables: Mapping[str, str] = os.environ) -> World:
    """The processes that torchrun started to train together, else one: the tasks of a Slurm array train separate runs.

    >>> read_team({"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_COUNT": "8"}).size
    1
    """
    launched = "RANK" in variables or "WORLD_SIZE" in variables
    return read_world(variables) if launched else World()


def _array(variables: Mapping[str, str]) -> tuple[int, int]:
    if "SLURM_ARRAY_TASK_ID" not in variables:
        return 0, 1
    count = _number(variables, "SLURM_ARRAY_TASK_COUNT")
    least = _number(variables, "SLURM_ARRAY_TASK_MIN") if "SLURM_ARRAY_TASK_MIN" in variables else 0
    step = _number(variables, "SLURM_ARRAY_TASK_STEP") if "SLURM_ARRAY_TASK_STEP" in variables else 1
    task = (_number(variables, "SLURM_ARRAY_TASK_ID") - least) // max(step, 1)
    if not 0 <= task < count:
        raise WorldError(
            f"SLURM_ARRAY_TASK_ID={variables['SLURM_ARRAY_TASK_ID']} is not one of {count} consecutive tasks; use an "
            f"array without gaps such as --array=0-{max(count - 1, 0)}, or set RANK and WORLD_SIZE"
        )
    return task, count


def _step(variables: Mapping[str, str]) -> tuple[int, int, int | None]:
    # the batch script itself also has SLURM_PROCID=0 but is not a step: only srun starts one process per task
    script = "SLURM_JOB_ID" in variables and "SLURM_STEP_ID" not in variables
    if script or "SLURM_PROCID" not in variables:
        return 0, 1, None
    local = _number(variables, "SLURM_LOCALID") if "SLURM_LOCALID" in variables else None
    return _number(variables, "SLURM_PROCID"), _number(variables, "SLURM_NTASKS"), local


def _number(variables: Mapping[str, str], name: str) -> int:
    try:
        return int(variables[name])
    except KeyError:
        raise WorldError(f"{name} is not set, but a related variable is; set both or none") from None
    except ValueError:
        raise WorldError(f"{name} must be a whole number, got {variables[name]!r}") from None


def one_process(command: str) -> None:
    """Refuse to run in several processes, which would all do the same work."""
    world = read_world()
    if world.size > 1:
        raise WorldError(
            f"{command} runs as one process, not as {world.name}; start it once, or set RANK=0 WORLD_SIZE=1 for each"
        )
