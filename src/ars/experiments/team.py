"""The processes that train one run together, set up only where there are several."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ars.experiments.world import World
from ars.training.ranks import Ranks


@contextmanager
def open_ranks(world: World, device: torch.device) -> Iterator[Ranks]:
    """Yield this process's place among those that torchrun started; alone, Accelerate is not even imported."""
    if world.size == 1:
        yield Ranks()
        return
    from ars.training.accelerated import AcceleratedRanks

    ranks = AcceleratedRanks(device)
    try:
        yield ranks
    finally:
        ranks.close()
