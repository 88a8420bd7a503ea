"""What of an object belongs to the model that keeps it: the same in every process, or records could not go on.

Python's own objects and torch's are not looked into: locks, loggers, files, generators, caches and addresses are there.
"""

import sys
from argparse import Namespace
from array import array
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import _lru_cache_wrapper
from operator import attrgetter, itemgetter, methodcaller
from pathlib import PurePath
from types import BuiltinFunctionType, MethodDescriptorType, ModuleType, SimpleNamespace

import numpy as np
import torch

OPEN = (SimpleNamespace, Namespace)  # of Python's own, those that somebody fills
BARE = {"abc", "argparse", "collections", "_collections_abc", "contextlib", "numbers", "types", "typing"}


def spoken(value: object) -> str | None:
    """How a value is written that is a number or a setting but none of Python's plain ones; None for any other."""
    match value:
        case range() | Fraction() | Decimal() | bytearray() | array() | torch.dtype() | np.dtype():
            return repr(value)
        case Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case type():
            return f"{value.__module__}.{value.__qualname__}"
        case BuiltinFunctionType() | MethodDescriptorType() | np.ufunc():  # torch.relu, torch.Tensor.relu, np.tanh
            return value.__name__
    return None


def held(value: object) -> object:
    """What a value holds that its own words do not tell: of an object its attributes; None where there is nothing."""
    match value:
        case Enum():
            return value.value
        case slice():
            return [value.start, value.stop, value.step]
        case itemgetter() | attrgetter() | methodcaller():
            return value.__reduce__()[1]
        case BuiltinFunctionType():  # a method of a list or a mapping has it with it
            return None if isinstance(value.__self__, (type, ModuleType)) else value.__self__
        case _lru_cache_wrapper():  # whose cache grows
            return value.__wrapped__
        case type():
            return None
    return _attributes(value) if _is_looked_into(type(value)) else None


def _attributes(value: object) -> dict[str, object]:
    """The attributes of an object, under their names, and which class it is of."""
    named: dict[str, object] = {}
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            with suppress(AttributeError):  # nothing was put there
                named[name] = getattr(value, name)
    named |= getattr(value, "__dict__", {})
    own = {name: it for name, it in named.items() if not name.startswith("__") and not _is_place(it)}
    return {**own, "__class__": type(value).__qualname__}


def _is_place(value: object) -> bool:
    """Whether a text says where something lies, which differs from machine to machine."""
    return isinstance(value, str) and PurePath(value).is_absolute()


def _is_looked_into(kind: type) -> bool:
    """Whether a class is somebody's, and derived from none of Python's that have a state of their own."""
    if kind in OPEN or kind.__module__.startswith("torch.distributions."):
        return True
    usual = (base for base in kind.__mro__[1:] if base is not object)
    return is_somebodys(kind) and all(is_somebodys(base) or _package(base) in {*BARE, "torch"} for base in usual)


def is_somebodys(kind: type) -> bool:
    """Whether a class is neither Python's nor torch's."""
    return _package(kind) not in sys.stdlib_module_names and _package(kind) != "torch"


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]
