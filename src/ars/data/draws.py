"""Random numbers that depend on a key of integers alone: the same on every machine and with every numpy and torch."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64, UInt64


def words(key: Sequence[int], count: int) -> UInt64[np.ndarray, " n"]:
    """Random 64-bit words; numpy promises that SeedSequence never changes, of its generators it does not.

    >>> words([0, 1, 2], 1)
    array([3071860871404845570], dtype=uint64)
    """
    return np.random.SeedSequence(list(key)).generate_state(count, np.uint64)


def uniforms(key: Sequence[int], count: int) -> Float64[np.ndarray, " n"]:
    """Random numbers in [0, 1)."""
    return (words(key, count) >> np.uint64(11)) * 2.0**-53


def generator(*key: int) -> torch.Generator:
    """A CPU generator that depends on the key alone, so that every device draws the same."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0]))
