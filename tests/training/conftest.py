import dataclasses
from pathlib import Path

import pytest
import torch

from ars.data.digits import DigitsOnPhotographs
from ars.recipes.build import build_model
from ars.recipes.recipe import Classifier, Data, Mask, Recipe
from ars.training import progress
from ars.training.loop import Interrupted, Trainer
from ars.training.settings import TrainSettings

RECIPE = Recipe(
    data=Data(passes=1),
    classifier=Classifier(width=4),
    mask=Mask(width=2),
    train=TrainSettings(epochs=2, batch_size=128, precision="float32"),
)


def training(**changes):
    """The tiny recipe with other settings of training."""
    return dataclasses.replace(RECIPE, train=dataclasses.replace(RECIPE.train, **changes))


def interrupt(trainer, step):
    """Train up to this step, where a signal arrives."""
    with pytest.raises(Interrupted):
        trainer.run(stop=lambda: trainer.step == step)


class FewDigits(DigitsOnPhotographs):
    """With five batches per epoch."""

    def train_size(self):
        return 640


@pytest.fixture(scope="session")
def digits():
    return FewDigits(passes=1)


@pytest.fixture(scope="session")
def make_trainer(digits):
    """A trainer of a tiny recipe in a folder; the same folder again is the same run, resumed."""

    def make(folder: Path, recipe: Recipe = RECIPE, identity: str | None = None, *, frozen: bool = False) -> Trainer:
        folder.mkdir(exist_ok=True)
        model = build_model(recipe, digits, torch.device("cpu"))
        if frozen:
            model.classifier.requires_grad_(False)
        return Trainer(
            model,
            digits,
            recipe.train,
            seed=recipe.seed,
            precision="float32",
            folder=folder,
            identity=identity or recipe.identity,
        )

    return make


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves on."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock
