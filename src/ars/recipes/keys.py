"""The keys of a recipe and their help texts; loads no torch.

A help text stands in the docstring of the dataclass that has the key: Recipe, Classifier, Mask and Start in recipe.py,
and the settings.py of data, training and certification.
"""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Literal, cast, get_args, get_origin

from ars.data.settings import KEYS
from ars.recipes.recipe import Recipe

WIDTH = 110


def recipe_keys() -> list[str]:
    """The dotted names of all keys of a recipe.

    >>> recipe_keys()[:4]
    ['method', 'sigma', 'share', 'beta']
    """
    return [name for name, *_ in _walk(Recipe())]


def list_keys() -> str:
    """Every key that ars train takes, with its values, its default and what it means."""
    lines = [
        "Every key of a recipe, as on the command line. In a YAML recipe, write train.epochs as train: {epochs: 7}."
    ]
    for name, kind, default, meaning in _walk(Recipe()):
        about = f"{meaning} Default: {_of_kinds(name) or _in_yaml(default)}."
        lines += [f"  --{name} {kind}", textwrap.fill(about, WIDTH, initial_indent=6 * " ", subsequent_indent=6 * " ")]
    return "\n".join(lines)


def meanings(part: type) -> dict[str, str]:
    """The meaning of each field, from the Args of the dataclass's docstring.

    >>> meanings(Recipe)["classifier"]
    'the base classifier.'
    """
    _, _, arguments = (inspect.getdoc(part) or "").partition("Args:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", arguments, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def _walk(part: Any, prefix: str = "") -> Iterator[tuple[str, str, Any, str]]:
    """Name, values, default and meaning of each key; an optional part is shown with its defaults."""
    about = meanings(type(part))
    for key in fields(part):
        value = getattr(part, key.name)
        if not is_dataclass(value):
            yield prefix + key.name, " or ".join(_values(key.type)), value, about[key.name]
        for inner in (type(value), *get_args(key.type)):
            if is_dataclass(inner):
                yield from _walk(value or cast(type, inner)(), f"{prefix}{key.name}.")


def _values(kind: Any) -> Iterator[str]:
    """The values that a key takes.

    >>> list(_values(int | None)), list(_values(float | Literal["learned"]))
    (['int', 'null'], ['float', 'learned'])
    """
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    elif get_origin(kind) is tuple:
        yield f"[{get_args(kind)[0].__name__}, ...]"
    elif get_args(kind):
        for one in get_args(kind):
            yield from _values(one)
    elif is_dataclass(kind):
        yield "{" + ", ".join(field.name for field in fields(kind)) + "}"
    else:
        yield "null" if kind is type(None) else kind.__name__


def _of_kinds(name: str) -> str:
    """The defaults of a key of the data, if they depend on the kind of data.

    >>> _of_kinds("data.size"), _of_kinds("data.root")
    ('32 (cifar_backgrounds), 224 (imagenet), 64 (folder)', '')
    """
    part, _, key = name.partition(".")
    defaults = {kind: keys[key] for kind, keys in KEYS.items() if part == "data" and keys.get(key) is not None}
    return ", ".join(f"{_in_yaml(value)} ({kind})" for kind, value in defaults.items())


def _in_yaml(value: Any) -> str:
    return json.dumps(value).strip('"')
