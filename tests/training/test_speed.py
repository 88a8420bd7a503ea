import random

import pytest
from torch import nn

from ars.training.speed import replayable

from .tiny import METHODS, make_model


@pytest.mark.parametrize("method", METHODS)
def test_our_models_can_be_replayed(method):
    assert replayable(make_model(method))


class Coin(nn.Module):
    """Tosses a coin of Python's, as some networks drop layers: a graph would keep the first toss for ever."""

    def forward(self, x):
        return x if random.random() < 0.5 else -x


def test_code_and_hooks_of_someone_else_are_run_at_every_step():
    model = make_model("cohen")
    model.classifier[2].register_forward_hook(lambda *_: None)
    assert not replayable(model)
    other = make_model("cohen")
    other.classifier.insert(2, Coin())
    assert not replayable(other)
