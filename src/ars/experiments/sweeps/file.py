"""Sweep files: many cells from one recipe, as products of methods, sizes, noise levels and seeds; loads no torch."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from ars.certification.limits import MOST_DRAWS
from ars.experiments.given_keys import contains_itself, misfits
from ars.experiments.plain_words import in_one_sentence
from ars.experiments.recipe import Method, Recipe, cell_name
from ars.experiments.recipe_file import read_recipe, recipe_keys
from ars.experiments.repeated_keys import repeated_key
from ars.experiments.sweeps.portable import portable
from ars.theory.arguments import as_whole

Weights = Literal["float32", "bf16"]
NAME, PLAIN = r"[\w.+]+", "letters, digits, _ . and +"
AXES = {"method": "methods", "data.size": "k", "sigma": "sigma", "seed": "seeds"}


class SweepError(ValueError):
    """A sweep file that cannot be read or does not make sense."""


@dataclass(frozen=True)
class Rough:
    """What a cell takes, as a guess for --plan until cells of the same method and side are finished.

    It is scaled by how much longer finished cells took than their own figures say.

    Args:
        methods: the methods that it holds for.
        k: the side of an image that it was measured at; other sides are scaled by k^2.
        epoch: seconds that an epoch of training takes.
        image: seconds that an image takes to certify.
        vote: seconds that the vote on the whole test set takes.
    """

    methods: tuple[Method, ...]
    k: int | None = None
    epoch: float | None = None
    image: float | None = None
    vote: float | None = None

    def __post_init__(self) -> None:
        for name in ("epoch", "image", "vote"):
            if not 0 <= (getattr(self, name) or 0.0) < math.inf:
                raise ValueError(f"rough {name} is in seconds and at least 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class Group:
    """Cells that share their settings: every k, then every sigma, every seed, every method, in the order given.

    Args:
        methods: adaptive, cohen, static_mask, unicr, sukenik.
        sigma: noise budgets.
        k: sides of an image (data.size); none for benchmarks of one size.
        seeds: of training.
        override: keys of the recipe by their dotted names, such as certify.n_estimate.
        vote: draws of the vote on every test image; 0 for no vote.
        keep_weights: whether the packed results hold the weights.
        label: stands at the end of the cells' names, to tell apart groups that differ in their overrides only.
    """

    methods: tuple[Method, ...]
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
                raise ValueError(f"{name} must name at least one of them")
        if any(k < 1 for k in self.k):
            raise ValueError(f"k names sides of an image, at least 1, got {min(self.k)}")
        as_whole("vote", self.vote, least=0, most=MOST_DRAWS)
        if self.label and not re.fullmatch(NAME, self.label):
            raise ValueError(f"label is part of a folder's name: {PLAIN} only, got {self.label!r}")


@dataclass(frozen=True)
class SweepFile:
    """The content of a sweep file.

    Args:
        recipe: the base recipe, relative to the sweep file.
        recipe_name: what tables and figures call it; sweeps of one name stand together there. Default: the file's name.
        recipe_note: what a reader of these should know of it; it stands below them.
        groups: the cells, in order.
        override: for each method, keys of its recipe by their dotted names.
        weights: bf16 rounds the trained weights before certification, so that they can be kept in half the space.
        rough: what cells may take.
        rough_on: the machine that the rough figures are of, such as one H200.
    """

    recipe: str
    groups: tuple[Group, ...]
    override: dict[Method, dict[str, Any]] = field(default_factory=dict)
    weights: Weights = "bf16"
    rough: tuple[Rough, ...] = ()
    rough_on: str = ""
    recipe_name: str = ""
    recipe_note: str = ""

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("groups must name at least one group of cells")
        if self.recipe_name and not re.fullmatch(NAME, self.recipe_name):
            raise ValueError(f"recipe_name is part of files' names: {PLAIN} only, got {self.recipe_name!r}")
        if Path(self.recipe).is_absolute():
            raise ValueError(f"recipe is relative to the sweep file, which is packed with results, got {self.recipe}")
        for method in self.override.keys() - set(get_args(Method)):
            raise ValueError(f"override is for {', '.join(get_args(Method))}, got {method}")
        for key in (key for keys in (*self.override.values(), *(it.override for it in self.groups)) for key in keys):
            if key in AXES:
                raise ValueError(f"{key} is not overridden but given to groups as {AXES[key]}")
            if not any(key == own or key.startswith(f"{own}.") for own in recipe_keys(Recipe())):
                raise ValueError(f"override names {key}, which no recipe has; 'ars train --keys' lists the keys")


@dataclass(frozen=True)
class Cell:
    """One run of a sweep: its folder's name, its recipe and what is done with it."""

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
    """Read a sweep file and the recipe of every cell; unknown keys and cells that are not distinct are refused."""
    if not path.is_file():
        pipe = path.exists() and not path.is_dir()
        raise SweepError(f"{path} is no file; save the sweep to one" if pipe else f"there is no sweep file at {path}")
    if not path.stem.isprintable() or "$" in path.stem:  # figures bear it, where $ begins a formula
        raise SweepError(f"{path}: a sweep file has a name of plain text without $; rename it")
    content = _parse(path)
    base = path.parent / content.recipe
    if not base.is_file():
        raise SweepError(f"{path}: there is no recipe at {base}; recipe is relative to the sweep file")
    cells = tuple(cell for group in content.groups for cell in _cells(path, base, content, group))
    for name, count in Counter(cell.name for cell in cells).items():
        if count > 1:
            raise SweepError(f"{path}: {count} cells are {name}; give their groups labels")
    return Sweep(path.stem, path, cells, content.rough, content.rough_on)


def _parse(path: Path) -> SweepFile:
    from jsonargparse import ArgumentError, ArgumentParser

    parser = ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--sweep", action="config")
    parser.add_class_arguments(SweepFile)
    try:
        text = path.read_text(encoding="utf-8")
        if twice := repeated_key(text):
            raise ValueError(twice)
        given = yaml.safe_load(text)
        if contains_itself(given):
            raise ValueError("it holds a value that contains itself; mend it")
        if isinstance(given, dict) and (misfit := next(misfits(given, SweepFile), None)):
            raise ValueError(misfit)
        values = parser.instantiate(parser.parse_args([f"--sweep={path}"]))
        return SweepFile(**{key.name: values[key.name] for key in fields(SweepFile)})
    except RecursionError as error:
        raise SweepError(f"{path} is nested too deeply for a sweep; mend it") from error
    except (ArgumentError, ValueError, TypeError, yaml.YAMLError) as error:
        raise SweepError(f"{path}: {in_one_sentence(error)}; docs/sweep.md says what a sweep file holds") from error


def _cells(path: Path, base: Path, content: SweepFile, group: Group) -> Iterator[Cell]:
    for k, sigma, seed, method in product(group.k or (None,), group.sigma, group.seeds, group.methods):
        name = cell_name(method, k, sigma, seed, group.label)
        axes = {"method": method, "sigma": sigma, "seed": seed, **({"data.size": k} if k else {})}
        keys = {**content.override.get(method, {}), **group.override, **axes}
        try:
            recipe = read_recipe(base, list(_options(keys)))
            if recipe.classifier.factory is not None:
                raise ValueError("a sweep imports no classifier; train it with ars train --classifier")
            portable(recipe)  # what could never be packed is not run either
        except ValueError as error:
            raise SweepError(f"{path}, {name}: {error}") from error
        yield Cell(name, recipe, k, content.weights, group.vote, group.keep_weights)


def _options(keys: Mapping[str, Any]) -> Iterator[str]:
    """Keys as the command line would give them."""
    for key, value in keys.items():
        yield f"--{key}={value if isinstance(value, str) else json.dumps(value)}"
