"""Benchmarks: one file each; every test input is a pure function of (index, seed)."""

from typing import TYPE_CHECKING

from ars.lazy import lazily

if TYPE_CHECKING:
    from ars.data.benchmark import Benchmark, open_benchmark
    from ars.data.settings import Data, DataError

__all__ = ["Benchmark", "Data", "DataError", "open_benchmark"]

# settings are read without torch
_HOMES = {"ars.data.benchmark": ("Benchmark", "open_benchmark"), "ars.data.settings": ("Data", "DataError")}
__getattr__, __dir__ = lazily(__name__, _HOMES)
