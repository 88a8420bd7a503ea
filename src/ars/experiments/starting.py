"""A training's start: the classifier alone, on smaller images, before the recipe's method takes it over.

Where the object is a small part of a large image, a network that starts from nothing looks for it for epochs; features
that were learned on the object alone find it at once, and smaller images take less time.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ars.experiments.recipe import Mask, Recipe
from ars.training.settings import TrainSettings


def start_of(recipe: Recipe) -> Recipe | None:
    """The recipe that the classifier is trained by first; None where there is none, or the images are no larger."""
    start = recipe.start
    if start is None or recipe.data.options["size"] <= start.size:
        return None
    usual = TrainSettings()  # nothing of a mask's: all methods have the same start
    without_mask: dict[str, Any] = {
        "mask": usual.mask,
        "mask_schedule": None,
        "mask_only_epochs": 0,
        "mask_prior": usual.mask_prior,
    }
    train = replace(recipe.train, epochs=start.epochs, **without_mask)
    data = replace(recipe.data, size=start.size)
    return replace(recipe, method="cohen", share=0.5, beta=None, mask=Mask(), data=data, train=train, start=None)


def shared_folder(starts: Path, start: Recipe) -> Path:
    """Where runs that begin alike find their start."""
    size = start.data.options["size"]
    return starts / f"start-k{size}-s{start.sigma:g}-seed{start.seed}-{start.identity[:8]}"


def epochs_in_all(recipe: Recipe) -> float:
    """The epochs of a training with its start, in epochs of the recipe's own size."""
    start = start_of(recipe)
    if start is None:
        return recipe.train.epochs
    ratio = float(start.data.options["size"] / recipe.data.options["size"])
    return recipe.train.epochs + start.train.epochs * ratio**2
