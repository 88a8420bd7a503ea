"""What a YAML file gives, held against the dataclass that it is for, where its parser has no plain word for it."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin


def misfits(content: dict[Any, Any], kind: Any, prefix: str = "") -> Iterator[str]:
    """Keys that are no text, keys without a value where one is needed, and unknown ones that hold nothing.

    >>> from ars.experiments.recipe import Recipe
    >>> next(misfits({"train": {"epochs": None}}, Recipe))
    'train.epochs is empty; give it a value or leave it out'
    """
    known = {key.name: key.type for key in fields(kind)}
    for key, value in content.items():
        if key in known:
            yield from _misfits(value, known[key], prefix + key)
        elif not isinstance(key, str):
            yield f"{prefix}{key} is no key, which is a word"
        elif value == {}:
            yield f"there is no key {prefix}{key}"


def _misfits(value: Any, kind: Any, name: str) -> Iterator[str]:
    kinds = (kind,) if get_origin(kind) in (None, tuple, dict) else get_args(kind)
    if value is None and not {NoneType, Any} & set(kinds):
        yield f"{name} is empty; give it a value or leave it out"
    elif all(map(is_dataclass, kinds)) and not isinstance(value, dict):
        yield f"{name} has keys of its own, got {value}"
    for it in kinds:
        if is_dataclass(it) and isinstance(value, dict):
            yield from misfits(value, it, f"{name}.")
        if get_origin(it) is tuple and isinstance(value, list):
            for place, item in enumerate(value):
                yield from _misfits(item, get_args(it)[0], f"{name}[{place}]")
        if get_origin(it) is dict and isinstance(value, dict):
            yield from (f"{name}.{key} is no key, which is a word" for key in value if not isinstance(key, str))
            for key, item in value.items():
                yield from _misfits(item, get_args(it)[1], f"{name}.{key}")


def contains_itself(value: Any, within: tuple[int, ...] = ()) -> bool:
    """Whether an alias leads from a value back to it.

    >>> import yaml
    >>> contains_itself(yaml.safe_load("a: &a {b: *a}")), contains_itself(yaml.safe_load("{a: &a {b: 1}, c: *a}"))
    (True, False)
    """
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return id(value) in within or any(contains_itself(it, (*within, id(value))) for it in inner)
