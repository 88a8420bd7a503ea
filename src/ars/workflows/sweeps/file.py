"""Sweep files: many cells from one recipe, the product of methods, sizes, noise levels and seeds; loads no torch."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from ars.certification.settings import MOST_DRAWS
from ars.methods.registry import method_called
from ars.recipes.keys import recipe_keys
from ars.recipes.read import SWEEPS, find_shipped, not_there, read_mapping, read_recipe, validated
from ars.recipes.recipe import Recipe, cell_name
from ars.theory.rounding import as_whole


def portable(recipe: Recipe) -> Recipe:
    """The recipe without paths of this machine: its data is then found through ARS_DATA."""
    data, classifier = recipe.data, recipe.classifier
    needed = {"classifier.from_run": classifier.from_run, "classifier.weights": classifier.weights}
    if data.kind == "folder":
        needed |= {"data.root": data.root, "data.backgrounds": data.backgrounds}
    for key, path in needed.items():
        if path and _absolute(path):
            raise ValueError(f"to be packed, {key} must be a path relative to the current folder, got {path}")
    if not any(path and _absolute(path) for path in (data.root, data.backgrounds)):
        return recipe
    root, backgrounds = (None if path and _absolute(path) else path for path in (data.root, data.backgrounds))
    return replace(recipe, data=replace(data, root=root, backgrounds=backgrounds))


def _absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


Weights = Literal["float32", "bf16"]
NAME, PLAIN = r"[\w.+]+", "letters, digits, _ . and +"
AXES = {"method": "methods", "data.size": "k", "sigma": "sigma", "seed": "seeds"}


class SweepError(ValueError):
    """A sweep file that cannot be read or is inconsistent."""


@dataclass(frozen=True)
class Rough:
    """Estimated times of a cell, for --plan until cells of the same method and side are finished.

    They are scaled by how much longer the finished cells took than estimated.

    Args:
        methods: the methods that the times apply to.
        k: the side of an image at which they were measured; other sides are scaled by k^2.
        epoch: seconds per epoch of training.
        image: seconds to certify an image.
        vote: seconds for the vote on the whole test set.
    """

    methods: tuple[str, ...]
    k: int | None = None
    epoch: float | None = None
    image: float | None = None
    vote: float | None = None

    def __post_init__(self) -> None:
        for name in ("epoch", "image", "vote"):
            if not 0 <= (getattr(self, name) or 0.0) < math.inf:
                raise ValueError(f"rough {name} must be seconds of at least 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class Group:
    """Cells that share their settings: the product of k, sigma, seeds and methods, in this order.

    Args:
        methods: adaptive, cohen, static_mask, unicr, sukenik, or registered ones.
        sigma: noise budgets.
        k: sides of an image (data.size); leave it out for benchmarks of one size.
        seeds: seeds of training.
        override: keys of the recipe by their dotted names, such as certify.n_estimate.
        vote: draws per test image in the vote; 0 for no vote.
        keep_weights: whether to pack the weights with the results.
        label: suffix of the cells' names, for groups that differ only in their overrides.
    """

    methods: tuple[str, ...]
    sigma: tuple[float, ...]
    k: tuple[int, ...] = ()
    seeds: tuple[int, ...] = (0,)
    override: dict[str, Any] = field(default_factory=dict)
    vote: int = 100
    keep_weights: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        for name in ("methods", "sigma", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty; give at least one value")
        if any(k < 1 for k in self.k):
            raise ValueError(f"k must be sides of an image of at least 1, got {min(self.k)}")
        as_whole("vote", self.vote, least=0, most=MOST_DRAWS)
        if self.label and not re.fullmatch(NAME, self.label):
            raise ValueError(f"label must be {PLAIN} only, since it is part of a folder's name, got {self.label!r}")


@dataclass(frozen=True)
class SweepFile:
    """The content of a sweep file.

    Args:
        recipe: the base recipe: its path relative to the sweep file, or the name of one that comes with ars.
        recipe_name: its name in tables and figures, where sweeps of one name are shown together (default: file name).
        recipe_note: a note for the reader, printed below these tables and figures.
        groups: the cells, in order.
        override: for each method, keys of its recipe by their dotted names.
        weights: bf16 rounds the trained weights before certification, so that they take half the space when packed.
        rough: estimated times of cells.
        rough_on: the machine of the estimated times, such as one H200.
    """

    recipe: str
    groups: tuple[Group, ...]
    override: dict[str, dict[str, Any]] = field(default_factory=dict)
    weights: Weights = "bf16"
    rough: tuple[Rough, ...] = ()
    rough_on: str = ""
    recipe_name: str = ""
    recipe_note: str = ""

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("groups must have at least one group of cells")
        if self.recipe_name and not re.fullmatch(NAME, self.recipe_name):
            raise ValueError(f"recipe_name must be {PLAIN} only, for file names, got {self.recipe_name!r}")
        if Path(self.recipe).is_absolute():
            raise ValueError(f"recipe must be a path relative to the sweep file, got {self.recipe}")
        for method in (*self.override, *(method for group in self.groups for method in group.methods)):
            method_called(method)
        overrides = (*self.override.values(), *(group.override for group in self.groups))
        for key in (key for keys in overrides for key in keys):
            if key in AXES:
                raise ValueError(f"{key} cannot be overridden; give it to groups as {AXES[key]}")
            if not any(key == name or key.startswith(f"{name}.") for name in recipe_keys()):
                raise ValueError(f"override has the unknown key {key}; 'ars train --keys' lists all keys")


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: its folder's name, its recipe and the work to do."""

    name: str
    recipe: Recipe
    k: int | None
    weights: Weights
    vote: int
    keep_weights: bool


@dataclass(frozen=True)
class Sweep:
    """The cells of a sweep file, in order."""

    name: str
    path: Path
    cells: tuple[Cell, ...]
    rough: tuple[Rough, ...]
    rough_on: str = ""


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file, or the shipped one of that name, and the recipe of every cell.

    Unknown keys and cells of the same name are refused.
    """
    path = find_shipped(path, SWEEPS)
    if not path.is_file():
        raise SweepError(not_there(path, "sweep file", SWEEPS))
    if not path.stem.isprintable() or "$" in path.stem:  # the name is shown in figures, where $ begins a formula
        raise SweepError(f"{path}: the name of a sweep file must be printable and without $; rename it")
    content = _parse(path)
    base = path.parent / content.recipe
    try:
        base = base if base.is_file() else find_shipped(Path(content.recipe))
        found = base.is_file()
    except OSError as error:  # a name that is too long
        raise SweepError(f"{path}: recipe cannot be opened: {error.strerror}") from error
    if not found:
        raise SweepError(f"{path}: there is no recipe {content.recipe}; give its name, or its path from the sweep file")
    cells = tuple(cell for group in content.groups for cell in _cells(path, base, content, group))
    for name, count in Counter(cell.name for cell in cells).items():
        if count > 1:
            raise SweepError(f"{path}: {count} cells are called {name}; give their groups different labels")
    return Sweep(path.stem, path, cells, content.rough, content.rough_on)


def _parse(path: Path) -> SweepFile:
    try:
        return validated(SweepFile, read_mapping(path, "sweep", "recipe: digits.yaml"))
    except (ValueError, TypeError) as error:
        raise SweepError(f"{path}: {error}; docs/sweep.md describes sweep files") from error


def _cells(path: Path, base: Path, content: SweepFile, group: Group) -> Iterator[Cell]:
    for k, sigma, seed, method in product(group.k or (None,), group.sigma, group.seeds, group.methods):
        name = cell_name(method, k, sigma, seed, group.label)
        axes = {"method": method, "sigma": sigma, "seed": seed, **({"data.size": k} if k else {})}
        keys = {**content.override.get(method, {}), **group.override, **axes}
        try:
            recipe = read_recipe(base, list(_options(keys)))
            if recipe.classifier.factory is not None:
                raise ValueError("a sweep cannot import a classifier; train it with ars train --classifier")
            portable(recipe)  # refuse early what could never be packed
        except ValueError as error:
            raise SweepError(f"{path}, {name}: {error}") from error
        yield Cell(name, recipe, k, content.weights, group.vote, group.keep_weights)


def _options(keys: Mapping[str, Any]) -> Iterator[str]:
    """Keys as the command line would give them."""
    for key, value in keys.items():
        yield f"--{key}={value if isinstance(value, str) else json.dumps(value)}"
