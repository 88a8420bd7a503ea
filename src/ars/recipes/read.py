"""Reading recipes: YAML files and dotted overrides, with one plain sentence for each error."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin

import yaml

from ars.data.settings import KEYS
from ars.recipes.keys import recipe_keys
from ars.recipes.recipe import Recipe, RecipeError
from ars.untrusted import PlainLoader, parse_yaml, read_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Settings = TypeVar("Settings")
SHIPPED = Path(__file__).parent / "shipped"
SWEEPS = SHIPPED / "sweeps"
DATASET = "dataset"
"""The kind of the data of an imported model that was evaluated in Python."""
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "tuple": "a list in brackets",
    "dict": "keys with values",
    "NoneType": "null",
}


def one_of(choices: Sequence[str]) -> str:
    """Choices in words.

    >>> one_of(["fixed", "radius", "curve"])
    'one of fixed, radius or curve'
    """
    *most, last = choices
    return f"one of {', '.join(most)} or {last}" if most else last


def suggestion(word: str, words: Sequence[str]) -> str:
    """A question that suggests the most similar of the words; empty if none is similar."""
    near = get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class RepeatedKey(ValueError):
    """A key that is given twice."""


class Loader(PlainLoader):
    """YAML in which no key may be given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, unless a key is repeated."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                where = f"line {line}" if lines[name] == line else f"lines {lines[name]} and {line}"
                raise RepeatedKey(f"{name} is given twice, on {where}; keep one of them")
            lines[name] = line
        return super().construct_mapping(node, deep)


def read_mapping(path: Path, what: str, example: str) -> dict[str, Any]:
    """The keys and values of a YAML file; what names its content, example one of its keys."""
    try:
        content = parse_yaml(read_text(path), Loader)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not a text file; write the {what} in YAML") from error
    except RepeatedKey:
        raise
    except ValueError as error:
        raise ValueError(f"{error}; fix it") from error
    if not isinstance(content, dict):
        found = "it is empty" if content is None else f"it holds a {type(content).__name__}"
        raise ValueError(f"{found}; a {what} has keys such as {example!r}")
    return content


def validated(kind: type[Settings], content: Mapping[str, Any]) -> Settings:
    """The dataclass with these values and defaults for the others; a wrong value or key is a ValueError.

    >>> validated(Recipe, {"train": {"epochs": "abc"}})
    Traceback (most recent call last):
    ValueError: train.epochs must be a whole number, got abc
    """
    from pydantic import ValidationError

    for name in _unknown(kind, content):
        raise ValueError(f"there is no key {name}")
    try:
        # as JSON, a list is a tuple and keys with values are a dataclass, and nothing else is converted
        made: Settings = _adapter(cast(Any, kind)).validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise ValueError(_sentence(kind, error.errors()[0])) from error
    return made


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _unknown(kind: Any, content: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of keys that a dataclass does not have; of an unknown part, its first key."""
    known = {key.name: key.type for key in fields(kind)}
    for key, value in content.items():
        if key not in known:
            first = next(iter(value), None) if isinstance(value, dict) else None
            yield f"{prefix}{key}" if first is None else f"{prefix}{key}.{first}"
            continue
        for part in (known[key], *get_args(known[key])):
            items = value if isinstance(value, list) else [value]
            for item in (item for item in items if is_dataclass(part) and isinstance(item, dict)):
                yield from _unknown(part, item, f"{prefix}{key}.")


def _sentence(kind: Any, error: "ErrorDetails") -> str:
    """What pydantic found, in plain words: the key, what it must be, and what it is."""
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    name, kinds = "", (kind,)
    for place in error["loc"]:  # which also names the members of unions
        if isinstance(place, int):
            name, kinds = f"{name}[{place}]", tuple(part for kind in kinds for part in get_args(kind)[:1])
            continue
        part = next((part for part in kinds if is_dataclass(part)), None)
        known = {key.name: key.type for key in fields(part)} if part else {}
        if place in known:
            found = known[place]
            union = get_origin(found) not in (None, tuple, dict, Literal)
            name, kinds = f"{name}.{place}".lstrip("."), get_args(found) if union else (found,)
        elif values := [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]:
            name, kinds = f"{name}.{place}", tuple(values)
    value = error["input"]
    if value is None and not any(is_dataclass(part) for part in kinds):
        return f"{name} is empty; give it a value or leave it out"
    choices = [str(choice) for part in kinds if get_origin(part) is Literal for choice in get_args(part)]
    words = [_word(part) for part in kinds if get_origin(part) is not Literal]
    wanted = " or ".join([*([one_of(choices)] if choices and not words else choices), *words])
    return f"{name} must be {wanted}, got {'nothing' if value is None else value}{suggestion(str(value), choices)}"


def _word(kind: Any) -> str:
    plain = "dict" if is_dataclass(kind) else getattr(get_origin(kind) or kind, "__name__", str(kind))
    return KINDS.get(plain, plain)


def find_shipped(given: Path, folder: Path = SHIPPED) -> Path:
    """The path itself, or the file of that name that comes with ars, if there is no file at the path.

    >>> find_shipped(Path("digits")).name, find_shipped(Path("mine.yaml"))
    ('digits.yaml', PosixPath('mine.yaml'))
    """
    shipped = folder / f"{given}.yaml"
    return shipped if given.name == str(given) and not given.is_file() and shipped.is_file() else given


def not_there(path: Path, what: str, folder: Path = SHIPPED) -> str:
    """The sentence for a recipe or a sweep file that cannot be found."""
    if path.exists() and not path.is_dir():
        return f"{path} is not a file; save the {what} to one"
    guess = suggestion(str(path), [shipped.stem for shipped in folder.glob("*.yaml")])
    return f"there is no {what} at {path}{guess or ';'} 'ars recipes' lists those that come with ars"


def read_recipe(path: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a YAML recipe, or the shipped one of that name; dotted overrides (--train.epochs 30) change single values.

    Unknown keys are refused.
    """
    path = path and find_shipped(path)
    if path is not None and not path.is_file():
        raise RecipeError(not_there(path, "recipe"))
    given = dict(_pairs(overrides))
    try:
        content = {} if path is None else read_mapping(path, "recipe", "sigma: 0.5")
        for name, text in given.items():
            _put(content, name, text)
        return validated(Recipe, content)
    except (ValueError, TypeError) as error:
        raise RecipeError(_located(str(error), path, given)) from error


def _pairs(overrides: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values of --name=value and --name value."""
    rest = iter(overrides)
    for option in rest:
        name, equals, value = option.removeprefix("--").partition("=")
        yield name, value if equals else next(rest, "")


def _put(content: dict[str, Any], name: str, text: str) -> None:
    """Set a dotted key to the value that a text stands for in YAML; a key that takes text gets it as it is."""
    *parts, last = name.split(".")
    kind: Any = Recipe
    for part in (*parts, last):
        kind = next((inner for inner in (kind, *get_args(kind)) if is_dataclass(inner)), None)
        kind = {key.name: key.type for key in fields(kind)}.get(part) if kind else None
    for part in parts:
        inner = content.get(part)
        content[part] = inner = dict(inner) if isinstance(inner, dict) else {}
        content = inner
    takes = (kind, *get_args(kind)) if get_origin(kind) is not tuple else ()
    try:
        value = parse_yaml(text, Loader)
    except RepeatedKey:
        raise
    except ValueError:
        value = text
    other = (value is None and NoneType in takes) or (isinstance(value, int | float) and float in takes)
    content[last] = value if other or not any(part is str or get_origin(part) is Literal for part in takes) else text


def _located(sentence: str, path: Path | None, overrides: Mapping[str, str]) -> str:
    """The sentence with the file or option at fault, and a similar key if there is one."""
    if sentence.partition(" ")[0] in overrides:
        return sentence
    if unknown := re.fullmatch("there is no key (.*)", sentence):
        names = recipe_keys()
        parts = dict.fromkeys(".".join(name.split(".")[:depth]) for name in names for depth in (1, 2))
        guess = suggestion(unknown[1], [*names, *parts])
        sentence += f"{guess or ';'} 'ars train --keys' lists all keys"
    return f"{path or 'the options'}: {sentence}"


def imported_model(path: Path) -> dict[str, Any] | None:
    """The content of a recipe.yaml that describes an imported model, else None; nothing is imported here."""
    try:
        content = parse_yaml(read_text(path))
    except (OSError, ValueError):
        return None  # read_recipe reports the error
    match content:
        case {"model": str(), "sigma": float(), "data": {"kind": kind}} if kind in KEYS or kind == DATASET:
            return dict(content)
    return None
