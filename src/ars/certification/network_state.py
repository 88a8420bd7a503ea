"""What a network is at a moment: its parts with their settings, and its numbers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from zlib import crc32

import torch
from torch import Tensor, nn

from ars.certification.plain_tensors import plain_parts

TRAINING_ONLY = {"momentum", "p", "inplace"}  # of torch's BatchNorm and dropout; whether memory is reused
OF_EVERY = frozenset(vars(nn.Module()))
PLAIN_VALUES = (bool, int, float, str, tuple, type(None))
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}
# odd, and their bits look random; that of the golden ratio, and one of splitmix64, as signed integers
GOLDEN, MIX = -7046029254386353131, -4658895280553007687
AT_ONCE = 2**22  # numbers, so that their sum needs little memory beside them

Structure = tuple[tuple[str, type, tuple[tuple[str, object], ...]], ...]


def structure(network: nn.Module) -> Structure:
    """Every part by its place, with its type and its settings; a part that is used twice counts twice."""
    return tuple((name, type(part), _settings(part)) for name, part in _parts(network))


def state(network: nn.Module) -> tuple[object, ...]:
    """What changes with the network: its parts, where its numbers are, how often they were written, and their bits.

    Writing through ``.data`` is not counted, and inference tensors count nothing: the bits show it. Of tensors that
    cannot be looked at nothing is told.
    """
    tensors = _looked_at(tensors_of(network))
    versions = [0 if tensor.is_inference() else tensor._version for tensor in tensors]
    return structure(network), [tensor.data_ptr() for tensor in tensors], versions, checksum(tensors)


def tensors_of(network: nn.Module) -> list[Tensor]:
    """The numbers of a network that torch knows of."""
    return [*network.parameters(), *network.buffers()]


def shares_parts(network: nn.Module) -> bool:
    """Whether a part with numbers of its own stands in several places."""
    with_numbers = [id(part) for _, part in _parts(network) if part._parameters or part._buffers]
    return len(set(with_numbers)) < len(with_numbers)


def changed_by_hand(network: nn.Module) -> bool:
    """Whether anything else is to happen when the network or a part of it runs: hooks, or another forward."""
    return any(part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part) for part in network.modules())


def checksum(tensors: Sequence[Tensor]) -> list[int]:
    """Numbers that a change of any bit, and with near certainty any exchange of values, changes.

    Elsewhere than on a CPU each value's bits, as an integer, times an odd factor of its place, summed modulo 2^64:
    one number for each size of value comes back, not the weights. Tensors that cannot be looked at are left out.
    """
    crc, elsewhere = 0, defaultdict(list)
    for tensor in _looked_at(tensors):
        bits = _bits(tensor)
        if bits.device.type == "cpu":
            crc = crc32(bits.numpy(), crc)  # type: ignore[arg-type]
        else:
            elsewhere[bits.dtype].append(bits)
    return [crc, *(places_sum(torch.cat(same)) for same in elsewhere.values())]


def places_sum(words: Tensor) -> int:
    """The sum of integers, each times a factor of its place."""
    total = torch.zeros((), dtype=torch.int64, device=words.device)
    for start in range(0, len(words), AT_ONCE):
        some = words[start : start + AT_ONCE]
        place = torch.arange(start + 1, start + len(some) + 1, device=words.device) * GOLDEN
        place ^= place >> 29
        place *= MIX
        total += (some * (place | 1)).sum()
    return int(total)


def _looked_at(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [part for tensor in tensors for part in plain_parts(tensor) or ()]


def _parts(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    yield from network.named_modules(remove_duplicate=False)


def is_familiar(part: nn.Module) -> bool:
    """Whether a part is of torch's or our own classes, which show their settings."""
    return type(part).__module__.startswith(("torch.nn.", "torch._dynamo.", "ars."))


def _settings(part: nn.Module) -> tuple[tuple[str, object], ...]:
    """Attributes that are plain values and count in eval mode; of other people's classes all, the private ones too.

    Lists in torch's layers are settings, as tuples are; in other people's they may grow while a network answers.
    """
    named = {name: value for name, value in vars(part).items() if name not in OF_EVERY}
    if is_familiar(part):
        usual = {name: it for name, it in named.items() if not name.startswith("_") and name not in TRAINING_ONLY}
        named = {name: tuple(it) if isinstance(it, list) else it for name, it in usual.items()}
    return tuple((name, it) for name, it in named.items() if not name.startswith("__") and isinstance(it, PLAIN_VALUES))


def _bits(tensor: Tensor) -> Tensor:
    """The values' bits as integers of their size."""
    flat = tensor.detach().reshape(-1)
    return flat.view(INTEGERS.get(flat.element_size(), torch.int64))
