"""Keeping the benchmark that was opened last, for work that takes step after step; finding data that was moved."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from ars.data.benchmark import Benchmark
from ars.data.opening import open_benchmark
from ars.data.settings import Data

_kept: ContextVar[list[tuple[Data, torch.device, Benchmark]] | None] = ContextVar("kept", default=None)
_moved: ContextVar[Mapping[str, str | None]] = ContextVar("moved", default={})  # noqa: B039 (never changed)


@contextmanager
def keep_benchmark() -> Iterator[None]:
    """While this lasts, a benchmark is opened once where it is asked for several times in a row."""
    token = _kept.set([])
    try:
        yield
    finally:
        _kept.reset(token)


@contextmanager
def moved_data(places: Mapping[str, str | None]) -> Iterator[None]:
    """While this lasts, data is opened in these places, whatever recipes say; they stay the recipes that they are."""
    token = _moved.set(places)
    try:
        yield
    finally:
        _moved.reset(token)


def kept_benchmark(data: Data, device: torch.device) -> Benchmark:
    """The benchmark that is kept, where it is this one; else it is opened, and kept if keep_benchmark says so."""
    kept, data = _kept.get(), data.at(_moved.get())
    if kept is None:
        return open_benchmark(data, device)
    if not kept or kept[0][:2] != (data, device):
        kept.clear()  # before the next one is opened, which needs the room
        kept.append((data, device, open_benchmark(data, device)))
    return kept[0][2]
