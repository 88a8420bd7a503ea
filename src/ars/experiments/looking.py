"""How the test images of a benchmark look, in numbers that are kept with what was counted on them."""

from jaxtyping import Float
from torch import Tensor

from ars.certification.seen_images import Look
from ars.data.benchmark import Benchmark

SAMPLED = 16


def look_at(benchmark: Benchmark) -> Float[Tensor, "b c h w"]:
    """The test images that a change of the set is noticed at."""
    return benchmark.examples("test", sample(benchmark.size("test")))[0]


def how_they_look(benchmark: Benchmark, some: Float[Tensor, "b c h w"]) -> Look:
    """The number of all test images; of some the brightness, then that of left and of upper halves, the contrast."""
    height, width = some.shape[-2:]
    parts = (some, some[..., : max(1, width // 2)], some[..., : max(1, height // 2), :])
    numbers = [*(part.flatten(1).mean(1) for part in parts), some.flatten(1).std(1)]
    return (float(benchmark.size("test")), *(round(number, 4) for row in numbers for number in row.tolist()))


def sample(total: int) -> list[int]:
    """The first image, the last and some between.

    >>> sample(3), sample(1000)[:3], sample(1000)[-1]
    ([0, 1, 2], [0, 67, 133], 999)
    """
    return sorted({round(number * (total - 1) / (SAMPLED - 1)) for number in range(SAMPLED)})
