import pytest
import torch
from torch import nn

from ars.smoothing.mechanism import Rows
from ars.training.loop import Interrupted, step_seed
from ars.training.ranks import Ranks
from ars.training.settings import TrainSettings

from .two_ranks import FEW, make_trainer


class Two(Ranks):
    def __init__(self, rank, size=2):
        self.rank, self.size = rank, size


def test_the_rows_of_all_ranks_are_the_batch():
    rows = [list(range(12))[Two(rank, 3).rows] for rank in range(3)]
    assert rows == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    generator = torch.Generator()
    assert Two(1, 3).noise(generator) == Rows(generator, 1, 3)
    assert Ranks().noise(generator) is generator


# 6 images in 4 parts would be 3 parts, and 3/4 of the gradient
@pytest.mark.parametrize(("batch", "size", "accumulate", "take"), [(128, 3, 1, 126), (2, 4, 1, 4), (12, 2, 4, 8)])
def test_a_batch_that_cannot_be_shared_evenly_is_refused_with_a_way_out(batch, size, accumulate, take):
    settings = TrainSettings(batch_size=batch, accumulate=accumulate)
    Ranks().check(settings)
    with pytest.raises(ValueError, match=f"use {take}"):
        Two(0, size).check(settings)


def test_dropout_differs_between_ranks_and_the_first_is_as_one_process():
    seeds = [step_seed(0, 5, purpose=1, rank=rank) for rank in range(8)]
    assert len(set(seeds)) == 8
    assert seeds[0] == step_seed(0, 5, purpose=1)


def test_the_global_generator_that_dropout_draws_from_is_seeded_by_step_and_rank(tmp_path):
    seeds = []

    class Watched(nn.Sequential):
        def forward(self, x):
            seeds.append(torch.initial_seed())
            return super().forward(x)

    trainer = make_trainer(tmp_path / "run", Two(0), FEW, Watched)
    for rank in range(2):
        trainer.ranks = Two(rank)
        with pytest.raises(Interrupted):
            trainer.run(stop=lambda: True)
    assert seeds == [step_seed(0, rank, purpose=1, rank=rank) for rank in range(2)]  # a step each
