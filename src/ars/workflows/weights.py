"""Weights of already trained classifiers, and weights rounded to bf16."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from ars.recipes.recipe import Recipe, RecipeError
from ars.recipes.user_code import tensors_with_nan
from ars.runs.paths import CHECKPOINT, MODEL, digest_of
from ars.smoothing import SmoothedClassifier
from ars.tensors import OF_MODEL, load_tensors, misfits, save_tensors, under


def round_weights(path: Path) -> None:
    """Round the weights of a run in place; their type stays float32, and the file is whole at any moment."""
    tensors, about = load_tensors(path)
    save_tensors(path, rounded(tensors), {**about, "weights": "bf16"})


def packed_weights(path: Path) -> bytes:
    """The file of a run's weights, as bf16 if they were rounded; no value changes."""
    tensors, about = load_tensors(path)
    if "weights" not in about:
        return path.read_bytes()
    for name, tensor in rounded(tensors).items():
        if not torch.equal(tensors[name], tensor):
            raise ValueError(f"{path} is marked as rounded, but {name} is not; train the run again")
    return save({name: to_bf16(tensor) for name, tensor in tensors.items()}, metadata={"about": json.dumps(about)})


def rounded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, rounded to bf16 but with their own types."""
    return {name: to_bf16(tensor).to(tensor.dtype) for name, tensor in tensors.items()}


def to_bf16(tensor: Tensor) -> Tensor:
    """A float32 tensor as bf16, rounded to nearest; tensors of other types as they are."""
    return tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor


PREFIX, MASK, SPLIT = "classifier.", ".mask.", ".split."
CONVERT = (
    "convert a state dict of torch.save once: load it with weights_only=True, and write it with "
    "safetensors.torch.save_file(state, 'my.safetensors')"
)


def pinned(recipe: Recipe) -> Recipe:
    """The recipe with the SHA-256 of the file of its classifier's weights, if there is one."""
    path = weights_file(recipe)
    if path is None:
        return recipe
    found = digest_of(path)
    expected = recipe.classifier.sha256
    if expected not in (None, found):
        raise RecipeError(f"{path} has SHA-256 {found}, but classifier.sha256 is {expected}; use the right weights")
    return replace(recipe, classifier=replace(recipe.classifier, sha256=found))


def weights_file(recipe: Recipe) -> Path | None:
    """The file of the classifier's weights; None if they are new or come with its code.

    For a run that is not fully trained, it is the last checkpoint.
    """
    if recipe.classifier.from_run is not None:
        folder = Path(recipe.classifier.from_run).expanduser()
        path = next((folder / name for name in (MODEL, CHECKPOINT) if (folder / name).is_file()), None)
        if path is None:
            raise RecipeError(
                f"classifier.from_run names {folder}, which has no trained model; train it first, or name another run"
            )
        return path
    if recipe.classifier.weights is not None:
        path = Path(recipe.classifier.weights).expanduser()
        if not path.is_file():
            raise RecipeError(f"there is no file {path}; give classifier.weights a safetensors file (--weights)")
        return path
    return None


def load_classifier(model: SmoothedClassifier, recipe: Recipe) -> None:
    """Load the weights that the recipe names into the classifier; all of them must fit."""
    path = weights_file(recipe)
    if path is None:
        return
    tensors, _ = load_tensors(path) if recipe.classifier.weights is None else load_tensors(path, advice=CONVERT)
    if recipe.classifier.from_run is not None:  # a whole smoothed model
        tensors = under(tensors, OF_MODEL + PREFIX if path.name == CHECKPOINT else PREFIX)
    _take_classifier(model, tensors, path)


def load_start(model: SmoothedClassifier, path: Path) -> None:
    """Load the final weights of its start into a model, rounded to bf16, because a sweep's cell may be the start.

    A mask and a learned split are loaded if the start has matching tensors for them; otherwise they stay new.
    """
    tensors = rounded(load_tensors(path)[0])
    _take_classifier(model, under(tensors, PREFIX), path)
    for part in (MASK, SPLIT):
        state = {name: value for name, value in model.state_dict().items() if not name.startswith(PREFIX)}
        wanted = {name: value.shape for name, value in state.items() if part in name}
        if all(name in tensors and tensors[name].shape == shape for name, shape in wanted.items()):
            model.load_state_dict({name: tensors[name] for name in wanted}, strict=False)


def _take_classifier(model: SmoothedClassifier, tensors: dict[str, Tensor], path: Path) -> None:
    wrong = misfits(model.classifier, tensors)
    if wrong:
        raise RecipeError(
            f"{path} holds the weights of another network: {len(wrong)} tensors do not fit, such as {wrong[0]}; "
            "name their network in the recipe's classifier"
        )
    unclear = tensors_with_nan(tensors)
    if unclear:
        raise RecipeError(f"{path} has weights that are NaN, such as {unclear[0]}; use other weights")
    model.classifier.load_state_dict(tensors)
