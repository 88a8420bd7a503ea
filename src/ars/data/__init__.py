"""Benchmarks: one file each; every test input is a pure function of (index, seed)."""

from typing import TYPE_CHECKING

from ars.lazy import lazily

if TYPE_CHECKING:
    from ars.data.benchmark import Benchmark
    from ars.data.errors import DataError
    from ars.data.opening import open_benchmark
    from ars.data.settings import Data

__all__ = ["Benchmark", "Data", "DataError", "open_benchmark"]

# settings are read without torch
_HOMES = {
    "ars.data.benchmark": ("Benchmark",),
    "ars.data.errors": ("DataError",),
    "ars.data.opening": ("open_benchmark",),
    "ars.data.settings": ("Data",),
}
__getattr__, __dir__ = lazily(__name__, _HOMES)
