"""Recipes as they are packed."""

from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath

from ars.experiments.recipe import Recipe


def portable(recipe: Recipe) -> Recipe:
    """The recipe without paths of the machine that it ran on: its data is then found where ARS_DATA says."""
    data, classifier = recipe.data, recipe.classifier
    needed = {"classifier.from_run": classifier.from_run, "classifier.weights": classifier.weights}
    if data.kind == "folder":
        needed |= {"data.root": data.root, "data.backgrounds": data.backgrounds}
    for key, path in needed.items():
        if path and _absolute(path):
            why = "of a run that is packed must be a relative path, seen from the current folder"
            raise ValueError(f"{key} {why}, got {path}")
    if not any(path and _absolute(path) for path in (data.root, data.backgrounds)):
        return recipe
    root, backgrounds = (None if path and _absolute(path) else path for path in (data.root, data.backgrounds))
    return replace(recipe, data=replace(data, root=root, backgrounds=backgrounds))


def _absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
