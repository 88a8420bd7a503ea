"""Numbers of a model that no state dict holds: in attributes, lists and mappings, in objects, functions and hooks."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from itertools import chain
from types import FunctionType, MethodType

import numpy as np
import torch
from torch import Tensor, nn

from ars.certification.network_state import OF_EVERY, PLAIN_VALUES, is_familiar, structure, tensors_of
from ars.certification.plain_tensors import plain_parts
from ars.experiments.plain_objects import held, is_somebodys, spoken
from ars.smoothing import SmoothedClassifier, last, minimum_variance

PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Plain(str):
    """A number, a text or several of them, as they are written."""


Named = Iterator[tuple[str, Tensor | str]]


def hidden_numbers(model: SmoothedClassifier) -> Named:
    """Tensors and arrays by their places, and the names of functions that stand for a part's own or hang on it."""
    yield from ((place, it) for place, it in _everywhere(model) if not isinstance(it, Plain))


def plain_numbers(model: SmoothedClassifier) -> str:
    """A digest of plain values that are no attributes themselves but lie inside of some; empty where there are none."""
    digest, found = sha256(), False
    for place, value in _everywhere(model):
        if isinstance(value, Plain):
            digest.update(f"{place} {value}".encode())
            found = True
    return digest.hexdigest() if found else ""


def _everywhere(model: SmoothedClassifier) -> Named:
    met = {id(tensor) for tensor in tensors_of(model)}
    yield from _of_parts(model, frozenset(), met)
    combine: object = model.combine
    if combine not in (last, minimum_variance) and not isinstance(combine, nn.Module):  # which is a part
        around = frozenset(id(part) for part in model.modules())
        met |= {id(combine)} if hasattr(combine, "__dict__") else set()  # which is told beside it
        yield from _inside("combine", [combine, getattr(combine, "__dict__", {})], around, met)


def _of_parts(model: nn.Module, around: frozenset[int], met: set[int] | None) -> Named:
    # hooks often refer to them, and they have their turn; their classes too, as those that they were made with
    around |= {id(it) for part in model.modules() for it in (part, type(part))}
    for place, part in model.named_modules():
        by_hand = {name: value for name, value in vars(part).items() if name == "forward"}
        by_hand |= {"before": [*part._forward_pre_hooks.values()], "after": [*part._forward_hooks.values()]}
        own = {} if is_familiar(part) else {name: it for name, it in vars(part).items() if name not in OF_EVERY}
        for name, it in {**own, **{name: it for name, it in by_hand.items() if it}}.items():
            if not is_setting(it):
                objects = met if name in by_hand or is_somebodys(type(part)) else None
                yield from _inside(f"{place}.{name}", it, around, objects)


def is_setting(value: object) -> bool:
    """Whether an attribute is told with the settings of its part: what is plain, and tuples of that."""
    return isinstance(value, PLAIN_VALUES) and (not isinstance(value, tuple) or all(map(is_setting, value)))


def written(part: nn.Module) -> str:
    """The kind and the settings of one part; what else lies in a tuple may tell where it lies, and is looked into."""
    [(name, kind, settings), *_] = structure(part)
    return f"{((name, kind, tuple((of, it) for of, it in settings if is_setting(it))),)}"


def inside(place: str, value: object) -> Named:
    """What lies in a value, by its place."""
    yield from _inside(place, value, frozenset(), set())


def _inside(place: str, value: object, around: frozenset[int], met: set[int] | None) -> Named:
    """Nothing of what is around a value, by its id; of an object that was met nothing more, and with None of none."""
    if id(value) in around:
        return
    if not isinstance(value, PLAIN):
        around |= {id(value)}
    match value:
        case np.generic():
            yield place, Plain(f"{value.dtype} {value.item()!r}")
        case bool() | int() | float() | complex() | str() | bytes() | None:
            yield place, Plain(repr(value))
        case Tensor():
            yield from by_place(place, plain_parts(value) or [])
        case np.ndarray() if not value.dtype.hasobject:
            bits = np.frombuffer(bytearray(value.tobytes()), np.uint8)
            yield f"{place} {value.dtype} {value.shape}", torch.from_numpy(bits)
        case np.ndarray():
            yield from _inside(place, value.tolist(), around, met)
        case nn.Module():
            yield from ((f"{place}.{name}", Plain(written(part))) for name, part in value.named_modules())
            for within, tensor in chain(value.named_parameters(), value.named_buffers()):
                yield from by_place(f"{place}.{within}", plain_parts(tensor) or [])
            yield from ((f"{place}.{name}", it) for name, it in _of_parts(value, around, met))
        case Mapping():
            # equal mappings may have been filled in any order
            named = [(_name(key, around | (met or set())), it) for key, it in value.items()]
            for name, inner in sorted(named, key=lambda item: str(item[0])):
                yield from _inside(f"{place}.{name}", inner, around, met)
        case list() | tuple() | deque() if all(type(inner) in PLAIN for inner in value):
            yield from [(place, Plain([*value]))] if value else []  # at once: there may be millions of them
        case list() | tuple() | deque():
            for number, inner in enumerate(value):
                yield from _inside(f"{place}.{number}", inner, around, met)
        case set() | frozenset():
            members = (repr(inner) if is_setting(inner) else spoken(inner) for inner in value)
            yield from _inside(place, sorted(filter(None, members)), around, met)
        case partial():
            yield from _inside(place, [value.func, value.args, value.keywords], around, met)
        case MethodType():
            yield from _inside(place, value.__func__, around, met)
            yield from _inside(f"{place}.self", value.__self__, around, met)
        case FunctionType():
            yield place, value.__qualname__
            defaults = [value.__defaults__ or (), value.__kwdefaults__ or {}]
            yield from _inside(place, [*_enclosed(value), *defaults], around, met)
        case _ if is_dataclass(value) and not isinstance(value, type):
            yield from _inside(place, {it.name: getattr(value, it.name, None) for it in fields(value)}, around, met)
        case _ if met is not None:
            words, known = spoken(value), id(value) in met
            yield from [] if words is None else [(place, Plain(words))]
            met.add(id(value))  # objects may refer to each other in more ways than could be gone
            yield from [] if known or (inner := held(value)) is None else _inside(place, inner, around, met)


def by_place(place: str, parts: list[Tensor]) -> Named:
    """The plain tensors that one is made of, where there is one under its own name."""
    yield from ((place if len(parts) == 1 else f"{place}.{number}", part) for number, part in enumerate(parts))


def _name(key: object, ids: frozenset[int]) -> str | int | float:
    """A key of a mapping, but of what lies somewhere, and of where parts of the model lie, the kind alone."""
    return key if isinstance(key, (str, int, float)) and key not in ids else type(key).__name__


def _enclosed(function: FunctionType) -> Iterator[object]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # of a name that was not given yet
            yield () if name == "__class__" else cell.cell_contents  # whose method it is, its own name tells
