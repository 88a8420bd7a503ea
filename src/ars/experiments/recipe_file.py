"""Reading recipes: YAML files and dotted overrides, with one plain sentence for what is wrong in them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from ars.certification.run_folder import RECIPE
from ars.data.settings import KEYS
from ars.experiments.given_keys import contains_itself, misfits
from ars.experiments.plain_words import in_one_sentence, meant
from ars.experiments.recipe import Recipe, RecipeError
from ars.experiments.repeated_keys import repeated_key


def source_sigma(recipe: Recipe) -> float | None:
    """The noise that the run of classifier.from_run was trained at; None where no run is named or it has no recipe."""
    source = recipe.classifier.from_run
    path = None if source is None else Path(source).expanduser() / RECIPE
    return read_recipe(path).sigma if path and path.is_file() else None


def read_recipe(path: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a YAML recipe; dotted overrides (--train.epochs 30) change single values, unknown keys are refused."""
    if path is not None and not path.is_file():
        pipe = path.exists() and not path.is_dir()
        raise RecipeError(f"{path} is no file; save the recipe to one" if pipe else f"there is no recipe at {path}")
    if path is not None:
        _check_mapping(path)
    arguments = [*([f"--recipe={path}"] if path else []), *overrides]
    parser = recipe_parser()
    from jsonargparse import ArgumentError

    try:
        values = parser.instantiate(parser.parse_args(arguments))
        return Recipe(**{key.name: values[key.name] for key in fields(Recipe)})
    except (ArgumentError, ValueError, TypeError) as error:
        raise RecipeError(_blamed(in_one_sentence(error), path, overrides)) from error


def imported_model(path: Path) -> dict[str, Any] | None:
    """A recipe.yaml where it is that of an imported model, which is never imported from here."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None  # the recipe's own reader says what is wrong
    match content:
        case {"model": str(), "sigma": float(), "data": {"kind": kind}} if kind in KEYS:
            return dict(content)
    return None


def _check_mapping(path: Path) -> None:
    """Refuse a file that is no recipe at all, where the parser would have no advice."""
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path} is not a text file; a recipe is one, in YAML ('ars train --keys' lists its keys)"
        ) from error
    except RecursionError as error:
        raise RecipeError(f"{path} is nested too deeply for a recipe; mend it") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path} is not YAML, which a recipe is: {' '.join(str(error).split())}; mend it") from error
    if not isinstance(content, dict):
        found = "is empty" if content is None else f"holds a {type(content).__name__}"
        raise RecipeError(f"{path} {found}; a recipe is keys such as 'sigma: 0.5' ('ars train --keys' lists them)")
    if contains_itself(content):
        raise RecipeError(f"{path} holds a value that contains itself; mend it")
    if twice := repeated_key(text):
        raise RecipeError(f"{path}: {twice}")
    for name, value in _no_parts(content, Recipe()):
        advice = "give some ('ars train --keys' lists them) or leave it out"
        raise RecipeError(f"{path}: {name} has keys of its own, got {value}; {advice}")
    for misfit in misfits(content, Recipe):
        raise RecipeError(_blamed(misfit, path, ()))


def _no_parts(content: dict[str, Any], part: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in place of the keys of a part, for which the parser would take other defaults than ours."""
    for key in fields(part):
        inner, value = getattr(part, key.name), content.get(key.name, {})
        if is_dataclass(inner) and isinstance(value, dict):
            yield from _no_parts(value, inner, f"{prefix}{key.name}.")
        elif is_dataclass(inner):
            yield prefix + key.name, "nothing" if value is None else value


def _blamed(sentence: str, path: Path | None, overrides: Sequence[str]) -> str:
    """The sentence with what is at fault, the file or an option, and the key that may have been meant."""
    key, _, _ = sentence.partition(" must ")
    if f"--{key}" in {option.partition("=")[0] for option in overrides}:
        return sentence
    if unknown := re.fullmatch("there is no key (.*)", sentence):
        names = list(recipe_keys(Recipe()))
        parts = dict.fromkeys(".".join(name.split(".")[:depth]) for name in names for depth in (1, 2))
        guess = meant(unknown[1], [*names, *parts])
        sentence += f"{guess or ';'} 'ars train --keys' lists what there is"
    return f"{path or 'the options'}: {sentence}"


def recipe_keys(part: Any, prefix: str = "") -> Iterator[str]:
    """Every key of a recipe by its dotted name.

    >>> list(recipe_keys(Recipe()))[:4]
    ['method', 'sigma', 'share', 'beta']
    """
    for key in fields(part):
        value = getattr(part, key.name)
        if not is_dataclass(value):
            yield prefix + key.name
        for kind in (type(value), *get_args(key.type)):  # of an optional part that is null, its type tells the keys
            if is_dataclass(kind):
                yield from recipe_keys(value or cast(type, kind)(), f"{prefix}{key.name}.")


@cache
def recipe_parser() -> Any:
    """The parser of recipes; it takes as long to make as a recipe to read, and keeps nothing of what it read."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False, add_help=False, prog="ars train RECIPE --out RUN", usage="")
    parser.add_argument("--recipe", action="config")
    parser.add_class_arguments(Recipe)
    return parser
