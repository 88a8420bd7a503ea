"""Numbers of a model that no state dict holds: in plain attributes, lists and mappings, in functions and hooks."""

from collections.abc import Iterator, Mapping
from inspect import getclosurevars
from itertools import chain
from types import FunctionType, MethodType

import numpy as np
import torch
from torch import Tensor, nn

from ars.certification.network_state import OF_EVERY, is_familiar

Named = Iterator[tuple[str, Tensor | str]]


def hidden_numbers(model: nn.Module) -> Named:
    """Each by its place, and the names of functions that were put in the place of a part's own or hang on it."""
    for place, part in model.named_modules():
        by_hand = {name: value for name, value in vars(part).items() if name == "forward"}
        by_hand |= {"before": [*part._forward_pre_hooks.values()], "after": [*part._forward_hooks.values()]}
        own = {} if is_familiar(part) else {name: it for name, it in vars(part).items() if name not in OF_EVERY}
        yield from _inside(place, {**own, **{name: it for name, it in by_hand.items() if it}}, frozenset())


def _inside(place: str, value: object, around: frozenset[int]) -> Named:
    if id(value) in around:
        return
    around |= {id(value)}
    match value:
        case Tensor():
            yield place, value
        case np.ndarray() if value.dtype != object:
            yield place, torch.from_numpy(np.ascontiguousarray(value))
        case nn.Module():
            tensors = chain(value.named_parameters(), value.named_buffers())
            yield from ((f"{place}.{name}", tensor) for name, tensor in tensors)
            yield from ((f"{place}.{name}", it) for name, it in hidden_numbers(value))
        case Mapping():
            for key, inner in value.items():
                yield from _inside(f"{place}.{key}", inner, around)
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from _inside(f"{place}.{number}", inner, around)
        case MethodType():
            yield from _inside(place, value.__func__, around)
        case FunctionType():
            yield place, value.__qualname__
            yield from _inside(place, [getclosurevars(value).nonlocals, value.__defaults__], around)
