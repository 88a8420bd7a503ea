"""The start of a training: first the classifier alone on small images, then the method on growing sizes.

If the object is a small part of a large image, a freshly initialised network needs many epochs to find it. Features
learned on small images find it at once, and smaller images take less time.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ars.methods.paper_values import paper_beta
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Mask, Recipe, RecipeError, cell_name
from ars.runs.paths import RECIPE
from ars.training.settings import TrainSettings


def start_of(recipe: Recipe) -> Recipe | None:
    """The recipe of the training that comes just before; None if there is none."""
    start = recipe.start
    if start is None or recipe.classifier.trained or recipe.data.options["size"] <= start.size:
        return None
    if recipe.passed:
        size = recipe.passed[-1]
        return replace(recipe, data=replace(recipe.data, size=size), beta=_beta_at(recipe, size))
    plain = TrainSettings()  # no settings of the mask: all methods share the same start
    train = replace(recipe.train, epochs=start.epochs, mask_only_epochs=0,
                    mask=plain.mask, mask_schedule=None, mask_prior=plain.mask_prior)  # fmt: skip
    data = replace(recipe.data, size=start.size)
    return replace(recipe, method="cohen", share=0.5, beta=None, mask=Mask(), data=data, train=train, start=None)


def _beta_at(recipe: Recipe, size: int) -> float | None:
    """The shape of the noise of a start: that of the recipe's own size, explicit if the default would differ."""
    if recipe.method != "unicr" or recipe.beta is not None:
        return recipe.beta
    own = paper_beta(recipe.data.options["size"], recipe.sigma)
    return None if paper_beta(size, recipe.sigma) == own else own


def starts_of(recipe: Recipe) -> Iterator[Recipe]:
    """All trainings that come before, the last one first."""
    start = start_of(recipe)
    if start is not None:
        yield start
        yield from starts_of(start)


def shared_folder(starts: Path, start: Recipe) -> Path:
    """Where runs with the same start train it."""
    size, method = start.data.options["size"], f"-{start.method}" if start.start else ""
    return starts / f"start{method}-k{size}-s{start.sigma:g}-seed{start.seed}-{start.identity[:8]}"


def cell_folder(starts: Path, recipe: Recipe) -> Path:
    """The folder of a sweep's cell that is this training, without a label."""
    return starts / cell_name(recipe.method, recipe.data.options["size"], recipe.sigma, recipe.seed)


def start_folder(starts: Path, start: Recipe) -> Path:
    """Where runs with the same start find it: in the sweep's cell of that training if there is one."""
    cell = cell_folder(starts, start)
    return cell if is_run_of(start, cell) else shared_folder(starts, start)


def begun_as_start(recipe: Recipe, folder: Path) -> Path | None:
    """Where the training of a cell without a folder was begun or finished as the start of others, if it was."""
    if "size" not in recipe.data.options or folder.exists() or folder != cell_folder(folder.parent, recipe):
        return None
    begun = shared_folder(folder.parent, recipe)
    return begun if is_run_of(recipe, begun) else None


def is_run_of(recipe: Recipe, folder: Path) -> bool:
    """Whether a folder holds a run of this recipe."""
    try:
        return read_recipe(folder / RECIPE).identity == recipe.identity
    except RecipeError:
        return False


def in_epochs_of(recipe: Recipe, start: Recipe, epochs: int) -> float:
    """Epochs of one of its starts, converted to epochs of the recipe's own size."""
    return epochs * float(start.data.options["size"] / recipe.data.options["size"]) ** 2


def epochs_in_all(recipe: Recipe) -> float:
    """The epochs of a training and of all its starts, in epochs of the recipe's own size."""
    return recipe.train.epochs + sum(in_epochs_of(recipe, start, start.train.epochs) for start in starts_of(recipe))
