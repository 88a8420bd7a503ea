"""Numbers of a model that no state dict holds: in plain attributes, lists and mappings, in functions and hooks."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from types import FunctionType, MethodType

import numpy as np
import torch
from torch import Tensor, nn

from ars.certification.network_state import OF_EVERY, is_familiar

Named = Iterator[tuple[str, Tensor | str]]


def hidden_numbers(model: nn.Module) -> Named:
    """Each by its place, and the names of functions that were put in the place of a part's own or hang on it."""
    yield from _of_parts(model, frozenset())


def _of_parts(model: nn.Module, around: frozenset[int]) -> Named:
    around |= {id(part) for part in model.modules()}  # hooks often refer to them, and they have their turn
    for place, part in model.named_modules():
        by_hand = {name: value for name, value in vars(part).items() if name == "forward"}
        by_hand |= {"before": [*part._forward_pre_hooks.values()], "after": [*part._forward_hooks.values()]}
        own = {} if is_familiar(part) else {name: it for name, it in vars(part).items() if name not in OF_EVERY}
        yield from _inside(place, {**own, **{name: it for name, it in by_hand.items() if it}}, around)


def _inside(place: str, value: object, around: frozenset[int]) -> Named:
    if id(value) in around:
        return
    around |= {id(value)}
    match value:
        case Tensor() if value.layout is torch.strided and not value.is_meta:
            yield place, value
        case np.ndarray() if not value.dtype.hasobject:
            bits = np.frombuffer(bytearray(value.tobytes()), np.uint8)
            yield f"{place} {value.dtype} {value.shape}", torch.from_numpy(bits)
        case nn.Module():
            tensors = chain(value.named_parameters(), value.named_buffers())
            yield from ((f"{place}.{name}", tensor) for name, tensor in tensors)
            yield from ((f"{place}.{name}", it) for name, it in _of_parts(value, around))
        case Mapping():
            for key, inner in value.items():
                name = key if isinstance(key, (str, int)) else type(key).__name__  # others may tell where they lie
                yield from _inside(f"{place}.{name}", inner, around)
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from _inside(f"{place}.{number}", inner, around)
        case MethodType():
            yield from _inside(place, value.__func__, around)
        case FunctionType():
            yield place, value.__qualname__
            yield from _inside(place, [*_enclosed(value), value.__defaults__], around)


def _enclosed(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # of a name that was not given yet
            yield cell.cell_contents
