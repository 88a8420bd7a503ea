"""What a network is at a moment: its parts with their settings, and its numbers."""

from collections.abc import Iterator, Sequence
from zlib import crc32

import torch
from torch import Tensor, nn

TRAINING_ONLY = {"training", "momentum", "p", "inplace"}  # the mode, of BatchNorm, of dropout; whether memory is reused
PLAIN_VALUES = (bool, int, float, str, tuple, type(None))
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32}
# odd, and their bits look random; that of the golden ratio, and one of splitmix64, as signed integers
GOLDEN, MIX = -7046029254386353131, -4658895280553007687

Structure = tuple[tuple[str, type, tuple[tuple[str, object], ...]], ...]


def structure(network: nn.Module) -> Structure:
    """Every part by its place, with its type and its settings; a part that is used twice counts twice."""
    return tuple((name, type(part), _settings(part)) for name, part in _parts(network))


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
    one number comes back, not the weights.
    """
    crc, elsewhere = 0, []
    for tensor in tensors:
        bits = _bits(tensor)
        if bits.device.type == "cpu":
            crc = crc32(bits.numpy(), crc)  # type: ignore[arg-type]
        else:
            elsewhere.append(bits.long())
    return [crc, places_sum(torch.cat(elsewhere)) if elsewhere else 0]


def places_sum(words: Tensor) -> int:
    """The sum of integers, each times a factor of its place."""
    place = torch.arange(1, len(words) + 1, device=words.device) * GOLDEN
    place ^= place >> 29
    place *= MIX
    return int((words * (place | 1)).sum())


def _parts(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    yield from network.named_modules(remove_duplicate=False)


def _settings(part: nn.Module) -> tuple[tuple[str, object], ...]:
    """Attributes that are plain values and count in eval mode."""
    public = ((name, value) for name, value in vars(part).items() if not name.startswith("_"))
    return tuple((name, it) for name, it in public if name not in TRAINING_ONLY and isinstance(it, PLAIN_VALUES))


def _bits(tensor: Tensor) -> Tensor:
    """The values' bits as integers of their size."""
    flat = tensor.detach().reshape(-1)
    return flat.view(INTEGERS.get(flat.element_size(), torch.int64))
