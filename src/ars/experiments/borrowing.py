"""Classifiers that were trained before: their weights from a run folder of ours or from a file of one's own."""

from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ars.certification.run_folder import CHECKPOINT, MODEL, digest_of
from ars.experiments.importing import no_numbers
from ars.experiments.recipe import Recipe, RecipeError
from ars.experiments.weights import rounded
from ars.smoothing import SmoothedClassifier
from ars.training.checkpoint import OF_MODEL, load_tensors, misfits, under

PREFIX, MASK, SPLIT = "classifier.", ".mask.", ".split."
CONVERT = (
    "a state dict that torch.save wrote is converted once: load it with weights_only=True, write it with "
    "safetensors.torch.save_file(state, 'my.safetensors')"
)


def pinned(recipe: Recipe) -> Recipe:
    """The recipe with the SHA-256 of the file that its classifier's weights come from, where there is one."""
    path = weights_file(recipe)
    if path is None:
        return recipe
    found = digest_of(path)
    expected = recipe.classifier.sha256
    if expected not in (None, found):
        raise RecipeError(f"{path} has the SHA-256 {found}, classifier.sha256 says {expected}; find the right weights")
    return replace(recipe, classifier=replace(recipe.classifier, sha256=found))


def weights_file(recipe: Recipe) -> Path | None:
    """Where the weights of the classifier come from; None where they are new or come with its code.

    Of a run that was not trained to the end, that is its last checkpoint.
    """
    if recipe.classifier.from_run is not None:
        folder = Path(recipe.classifier.from_run).expanduser()
        path = next((folder / name for name in (MODEL, CHECKPOINT) if (folder / name).is_file()), None)
        if path is None:
            raise RecipeError(
                f"classifier.from_run names {folder}, where no trained model is; train it first, or name another"
            )
        return path
    if recipe.classifier.weights is not None:
        path = Path(recipe.classifier.weights).expanduser()
        if not path.is_file():
            raise RecipeError(f"classifier.weights names {path}, where no file is; give a safetensors file (--weights)")
        return path
    return None


def load_classifier(model: SmoothedClassifier, recipe: Recipe) -> None:
    """Give the classifier the weights that the recipe names; all of them must fit."""
    path = weights_file(recipe)
    if path is None:
        return
    tensors, _ = load_tensors(path) if recipe.classifier.weights is None else load_tensors(path, advice=CONVERT)
    if recipe.classifier.from_run is not None:  # a whole model of ours
        tensors = under(tensors, OF_MODEL + PREFIX if path.name == CHECKPOINT else PREFIX)
    _take_classifier(model, tensors, path)


def take_start(model: SmoothedClassifier, path: Path) -> None:
    """Give a model the weights that its start ended with, rounded to bf16: a cell of a sweep, which is, may be a start.

    A mask and a learned split take those that the start has for them; where these do not fit, they stay as they are.
    """
    tensors = rounded(load_tensors(path)[0])
    _take_classifier(model, under(tensors, PREFIX), path)
    for part in (MASK, SPLIT):
        own = {name: it for name, it in model.state_dict().items() if part in name and not name.startswith(PREFIX)}
        if all(name in tensors and tensors[name].shape == tensor.shape for name, tensor in own.items()):
            model.load_state_dict({name: tensors[name] for name in own}, strict=False)


def _take_classifier(model: SmoothedClassifier, tensors: dict[str, Tensor], path: Path) -> None:
    wrong = misfits(model.classifier, tensors)
    if wrong:
        raise RecipeError(
            f"{path} holds the weights of another network: {len(wrong)} tensors do not fit, {wrong[0]} for one; "
            "name the network that they belong to in the recipe's classifier"
        )
    unclear = no_numbers(tensors)
    if unclear:
        raise RecipeError(f"{path} holds weights that are no numbers, {unclear[0]} for one; give others, trained well")
    model.classifier.load_state_dict(tensors)
