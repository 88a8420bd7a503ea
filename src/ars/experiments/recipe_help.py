"""What the keys of a recipe mean, from the docstrings of its parts; loads no torch."""

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Literal, cast, get_args, get_origin

from ars.data.settings import KEYS
from ars.experiments.recipe import Recipe

WIDTH = 110


def list_keys() -> str:
    """Every key that ars train takes, with its values, its default and what it means."""
    lines = [
        "Every key of a recipe, as on the command line; train.epochs stands in a YAML recipe as train: {epochs: 7}."
    ]
    for name, kind, default, meaning in _walk(Recipe()):
        about = f"{meaning} Default: {_of_kinds(name) or _shown(default)}."
        lines += [f"  --{name} {kind}", textwrap.fill(about, WIDTH, initial_indent=6 * " ", subsequent_indent=6 * " ")]
    return "\n".join(lines)


def meanings(part: type) -> dict[str, str]:
    """What the Args of a dataclass's docstring say of each field.

    >>> meanings(Recipe)["classifier"]
    'the base classifier.'
    """
    _, _, arguments = (inspect.getdoc(part) or "").partition("Args:\n")
    said = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", arguments, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in said}


def _walk(part: Any, prefix: str = "") -> Iterator[tuple[str, str, Any, str]]:
    """Name, values, default and meaning of each key; of an optional part, once it is given."""
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
    """The defaults of a key of the data, where the kinds of data have their own.

    >>> _of_kinds("data.size"), _of_kinds("data.root")
    ('32 (cifar_backgrounds), 224 (imagenet), 64 (folder)', '')
    """
    part, _, key = name.partition(".")
    own = {kind: keys[key] for kind, keys in KEYS.items() if part == "data" and keys.get(key) is not None}
    return ", ".join(f"{_shown(value)} ({kind})" for kind, value in own.items())


def _shown(value: Any) -> str:
    """A default as YAML has it."""
    return json.dumps(value).strip('"')
