"""Reading recipes: YAML files and dotted overrides, with one plain sentence for each error."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args, get_origin

import yaml

from ars.data.kinds import KEYS
from ars.recipes.recipe import Recipe, RecipeError
from ars.runs.paths import RECIPE

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "tuple": "a list in brackets",
    "dict": "keys with values",
    "NoneType": "null",
}


def plain_error(error: Exception) -> str:
    """The message of the parser or of our dataclasses, in plain words.

    >>> plain_error(ValueError("Parser key \\"train.epochs\\":\\n  Expected a <class 'int'>. Got value: abc"))
    'train.epochs must be a whole number, got abc'
    >>> plain_error(ValueError("Group 'train' does not accept option 'epoch'"))
    'there is no key train.epoch'
    """
    return _translated(" ".join(str(error).split()), "")


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


def _translated(text: str, key: str) -> str:
    """A message about a key; messages about parts are nested."""
    if match := re.fullmatch(r'Parser key "([^"]+)": (.*)', text):
        return _translated(match[2], _joined(key, match[1]))
    if match := re.fullmatch(r"Problem with given class_path '[^']*': (.*)", text):
        return _translated(match[1], key)
    if match := re.fullmatch(r"Does not validate .*? Errors: - (.*) Given value type: .*? Given value: ?(.*)", text):
        inner = match[1].removesuffix(" - Expected a <class 'NoneType'>")
        if inner.startswith(("Not a valid subclass", "Expected a dot import path")):
            return f"{key} must be keys with values or null, got {match[2]}"
        return _expected(key, match[1], match[2]) if inner.startswith("Expected") else _translated(inner, key)
    if match := re.fullmatch(r"(Expected a .*)\. Got value: ?(.*)", text):
        return _expected(key, match[1], match[2])
    if match := re.fullmatch(r"(?:Group '([^']+)' does not accept option|Option) '([^']+)'(?: is not accepted)?", text):
        return f"there is no key {_joined(_joined(key, match[1]), match[2])}"
    return text


def _expected(key: str, errors: str, value: str) -> str:
    found = re.findall(r"Expected a (?:<class '(\w+)'>|typing\.Literal\[([^]]*)\])", errors)
    choices = [choice for _, listed in found for choice in re.findall(r"'([^']*)'", listed)]
    kinds = [KINDS.get(kind, kind) for kind, _ in found if kind]
    wanted = " or ".join([*([one_of(choices)] if choices and not kinds else choices), *kinds])
    return f"{key} must be {wanted}, got {value or 'nothing'}{suggestion(value, choices)}"


def _joined(part: str, key: str | None) -> str:
    return ".".join(name for name in (part, key) if name)


def misfits(content: dict[Any, Any], kind: Any, prefix: str = "") -> Iterator[str]:
    """Errors: keys that are not text, keys without a required value, and unknown keys without content.

    >>> from ars.recipes.recipe import Recipe
    >>> next(misfits({"train": {"epochs": None}}, Recipe))
    'train.epochs is empty; give it a value or leave it out'
    """
    known = {key.name: key.type for key in fields(kind)}
    for key, value in content.items():
        if key in known:
            yield from _misfits(value, known[key], prefix + key)
        elif not isinstance(key, str):
            yield f"{prefix}{key} is not a key; a key is a word"
        elif value == {}:
            yield f"there is no key {prefix}{key}"


def _misfits(value: Any, kind: Any, name: str) -> Iterator[str]:
    kinds = (kind,) if get_origin(kind) in (None, tuple, dict) else get_args(kind)
    if value is None and not {NoneType, Any} & set(kinds):
        yield f"{name} is empty; give it a value or leave it out"
    elif all(map(is_dataclass, kinds)) and not isinstance(value, dict):
        yield f"{name} must be keys with values, got {value}"
    for option in kinds:
        if is_dataclass(option) and isinstance(value, dict):
            yield from misfits(value, option, f"{name}.")
        if get_origin(option) is tuple and isinstance(value, list):
            for position, item in enumerate(value):
                yield from _misfits(item, get_args(option)[0], f"{name}[{position}]")
        if get_origin(option) is dict and isinstance(value, dict):
            yield from (f"{name}.{key} is not a key; a key is a word" for key in value if not isinstance(key, str))
            for key, item in value.items():
                yield from _misfits(item, get_args(option)[1], f"{name}.{key}")


def contains_itself(value: Any, within: tuple[int, ...] = ()) -> bool:
    """Whether an alias makes a value part of itself.

    >>> import yaml
    >>> contains_itself(yaml.safe_load("a: &a {b: *a}")), contains_itself(yaml.safe_load("{a: &a {b: 1}, c: *a}"))
    (True, False)
    """
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return id(value) in within or any(contains_itself(item, (*within, id(value))) for item in inner)


def repeated_key(text: str) -> str | None:
    """The first repeated key and its lines; None if there is none, or if the text is not YAML.

    >>> repeated_key("train:\\n  epochs: 3\\n  epochs: 4")
    'train.epochs is given twice, on lines 2 and 3; keep one of them'
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    found = next(_repeated(root, "", set()), None) if root else None
    if found is None:
        return None
    name, first, second = found
    where = f"line {first}" if first == second else f"lines {first} and {second}"
    return f"{name} is given twice, on {where}; keep one of them"


def _repeated(node: yaml.Node, prefix: str, seen: set[int]) -> Iterator[tuple[str, int, int]]:
    """The dotted names with both lines; a node that aliases repeat is visited once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item, prefix, seen)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            yield prefix + name, lines[name], line
        lines[name] = line
        yield from _repeated(value, f"{prefix}{name}.", seen)


def source_sigma(recipe: Recipe) -> float | None:
    """The noise level of the run that classifier.from_run names; None without a run, or if it has no recipe."""
    source = recipe.classifier.from_run
    path = None if source is None else Path(source).expanduser() / RECIPE
    return read_recipe(path).sigma if path and path.is_file() else None


def read_recipe(path: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """Read a YAML recipe; dotted overrides (--train.epochs 30) change single values. Unknown keys are refused."""
    if path is not None and not path.is_file():
        pipe = path.exists() and not path.is_dir()
        raise RecipeError(f"{path} is not a file; save the recipe to one" if pipe else f"there is no recipe at {path}")
    if path is not None:
        _check_mapping(path)
    arguments = [*([f"--recipe={path}"] if path else []), *overrides]
    parser = recipe_parser()
    from jsonargparse import ArgumentError

    try:
        values = parser.instantiate(parser.parse_args(arguments))
        return Recipe(**{key.name: values[key.name] for key in fields(Recipe)})
    except (ArgumentError, ValueError, TypeError) as error:
        raise RecipeError(_located(plain_error(error), path, overrides)) from error


def imported_model(path: Path) -> dict[str, Any] | None:
    """The content of a recipe.yaml that describes an imported model, else None; nothing is imported here."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None  # read_recipe reports the error
    match content:
        case {"model": str(), "sigma": float(), "data": {"kind": kind}} if kind in KEYS:
            return dict(content)
    return None


def _check_mapping(path: Path) -> None:
    """Refuse a file that is not a recipe at all, with better advice than the parser's."""
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path} is not a text file; write the recipe in YAML ('ars train --keys' lists its keys)"
        ) from error
    except RecursionError as error:
        raise RecipeError(f"{path} is nested too deeply for a recipe; fix it") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{path} is not valid YAML: {' '.join(str(error).split())}; fix it") from error
    if not isinstance(content, dict):
        found = "is empty" if content is None else f"holds a {type(content).__name__}"
        raise RecipeError(f"{path} {found}; a recipe has keys such as 'sigma: 0.5' ('ars train --keys' lists them)")
    if contains_itself(content):
        raise RecipeError(f"{path} has a value that contains itself; fix it")
    if twice := repeated_key(text):
        raise RecipeError(f"{path}: {twice}")
    for name, value in _no_parts(content, Recipe()):
        advice = "give some ('ars train --keys' lists them) or leave it out"
        raise RecipeError(f"{path}: {name} must be keys with values, got {value}; {advice}")
    for misfit in misfits(content, Recipe):
        raise RecipeError(_located(misfit, path, ()))


def _no_parts(content: dict[str, Any], part: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values given instead of the keys of a part; the parser would silently use its own defaults for them."""
    for key in fields(part):
        inner, value = getattr(part, key.name), content.get(key.name, {})
        if is_dataclass(inner) and isinstance(value, dict):
            yield from _no_parts(value, inner, f"{prefix}{key.name}.")
        elif is_dataclass(inner):
            yield prefix + key.name, "nothing" if value is None else value


def _located(sentence: str, path: Path | None, overrides: Sequence[str]) -> str:
    """The sentence with the file or option at fault, and a similar key if there is one."""
    key, _, _ = sentence.partition(" must ")
    if f"--{key}" in {option.partition("=")[0] for option in overrides}:
        return sentence
    if unknown := re.fullmatch("there is no key (.*)", sentence):
        names = list(recipe_keys(Recipe()))
        parts = dict.fromkeys(".".join(name.split(".")[:depth]) for name in names for depth in (1, 2))
        guess = suggestion(unknown[1], [*names, *parts])
        sentence += f"{guess or ';'} 'ars train --keys' lists all keys"
    return f"{path or 'the options'}: {sentence}"


def recipe_keys(part: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all keys of a recipe.

    >>> list(recipe_keys(Recipe()))[:4]
    ['method', 'sigma', 'share', 'beta']
    """
    for key in fields(part):
        value = getattr(part, key.name)
        if not is_dataclass(value):
            yield prefix + key.name
        for kind in (type(value), *get_args(key.type)):  # the type of an optional part has its keys
            if is_dataclass(kind):
                yield from recipe_keys(value or cast(type, kind)(), f"{prefix}{key.name}.")


@cache
def recipe_parser() -> Any:
    """The parser of recipes, which keeps no state; building it takes as long as reading a recipe."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False, add_help=False, prog="ars train RECIPE --out RUN", usage="")
    parser.add_argument("--recipe", action="config")
    parser.add_class_arguments(Recipe)
    return parser
