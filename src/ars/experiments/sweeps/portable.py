"""Recipes as they are packed."""

from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath

from ars.experiments.recipe import Recipe


def portable(recipe: Recipe) -> Recipe:
    """The recipe without paths of the machine that it ran on: its data is then found where ARS_DATA says."""
    data = recipe.data
    borrowed = (recipe.classifier.from_run, recipe.classifier.weights)
    if any(path and _absolute(path) for path in borrowed):
        raise ValueError("classifier.from_run and classifier.weights of a packed run must be relative paths")
    if not any(path and _absolute(path) for path in (data.root, data.backgrounds)):
        return recipe
    if data.kind == "folder":
        raise ValueError("data.root and data.backgrounds of a packed run must be relative paths; sweep with such ones")
    root, backgrounds = (None if path and _absolute(path) else path for path in (data.root, data.backgrounds))
    return replace(recipe, data=replace(data, root=root, backgrounds=backgrounds))


def _absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
