"""What work will take: its first batches are timed here, and the rest is counted, for any number of GPUs.

Work consists of pieces that one GPU does as a whole: the shards of a certification, the cells of a sweep.
"""

import heapq
import platform
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ars.certification.certifier import Certifier
from ars.certification.settings import BLOCK, CertifySettings
from ars.data.benchmark import Benchmark, Opener
from ars.kernels.precision import choose_precision
from ars.recipes.build import build_model
from ars.recipes.recipe import Recipe
from ars.training.loop import Interrupted
from ars.training.progress import Standing
from ars.training.step import WARM_UP
from ars.workflows.certify import Job, open_job
from ars.workflows.request import Request
from ars.workflows.train import train_run

CERTIFY_SECONDS, TRAIN_SECONDS = 2.0, 5.0  # that a timing takes after the warm-up
LONGEST = 120.0  # after which a training is timed by the steps that it has made


@dataclass(frozen=True)
class Forecast:
    """Seconds of the pieces in the order in which they are taken, and before the first piece of each GPU."""

    pieces: tuple[float, ...]
    start: float = 0.0

    def wall_seconds(self, gpus: int) -> float:
        """The time on so many GPUs, of which each takes the next piece when it is free.

        >>> [Forecast((10.0,) * 9, start=5.0).wall_seconds(gpus) for gpus in (1, 4, 100)]
        [95.0, 35.0, 15.0]
        """
        ends = [self.start] * min(gpus, len(self.pieces))
        for seconds in self.pieces:
            heapq.heapreplace(ends, ends[0] + seconds)
        return max(ends, default=0.0)

    def gpu_hours(self, gpus: int) -> float:
        """The time that so many GPUs are held, those included that wait for the last piece."""
        return min(gpus, len(self.pieces)) * self.wall_seconds(gpus) / 3600


@dataclass(frozen=True)
class TimedDraws:
    """Certification as it was timed: seconds per draw, and to load an image."""

    draw: float
    loading: float

    def image(self, draws: float) -> float:
        """The seconds for an image with so many draws."""
        return self.loading + draws * self.draw


@dataclass(frozen=True)
class CertificationForecast:
    """The rest of a certification: images and draws that are left, and what they take on this device.

    draws is an upper bound (at_most) in a mode that may stop early, until there are records to go by.
    """

    images: int
    total: int
    draws: int
    at_most: bool
    device: str
    timed: TimedDraws
    forecast: Forecast


def forecast_certification(request: Request, device: torch.device) -> CertificationForecast:
    """Time the first images that are left; nothing is written."""
    began = time.perf_counter()
    job = open_job(request, device)
    start = time.perf_counter() - began
    left, at, found = job.begun(range(job.layout.shards))
    each, at_most = float(most_draws(job.settings)), job.settings.mode != "fixed" and not found
    if found:
        certificates = [record.certificate for record in found]
        each = sum(sum(one.counts) + sum(one.select_counts) for one in certificates) / len(found)
    counts = [count for count in left.values() if count]
    timed = _time_job(job, left) if counts else TimedDraws(0.0, 0.0)
    pieces = tuple(count * timed.image(each) for count in counts)
    draws = round(sum(counts) * each)
    return CertificationForecast(sum(counts), at.total, draws, at_most, name_of(device), timed, Forecast(pieces, start))


def most_draws(settings: CertifySettings) -> int:
    """The draws of an image, if it does not stop early."""
    return settings.n_select + settings.n_estimate


def name_of(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} cores, {platform.processor() or platform.machine()}"


def _time_job(job: Job, left: dict[int, int]) -> TimedDraws:
    """Time the images of the first shard that lacks some."""
    number = next(number for number, count in left.items() if count)
    indices = job.layout.images(number)[-left[number] :]
    return time_draws(job.certifier, job.benchmark, indices, job.settings, job.device)


def time_draws(
    certifier: Certifier, benchmark: Benchmark, indices: Sequence[int], settings: CertifySettings, device: torch.device
) -> TimedDraws:
    """Draw for these images together, as a shard does, ever more often until it takes long enough to be timed."""
    began = time.perf_counter()
    images = benchmark.examples("test", indices)[0].to(device)
    loading = (time.perf_counter() - began) / len(indices)
    most, n = most_draws(settings), min(BLOCK, most_draws(settings))
    certifier.votes(images, indices, n=n)  # the first call compiles, and fills caches
    while True:
        began = time.perf_counter()
        certifier.votes(images, indices, n=n)
        seconds = time.perf_counter() - began
        if seconds >= CERTIFY_SECONDS or n == most:
            return TimedDraws(seconds / (n * len(indices)), loading)
        n = min(most, n * 2)


def time_cell(
    recipe: Recipe, *, vote: int, images: int, device: torch.device, open_data: Opener
) -> tuple[float, float, float]:
    """Seconds per epoch, per certified image (at most) and per vote, with a model that was built but not trained.

    So many images are certified together, as in a shard. Nothing is kept.
    """
    recipe = replace(recipe, start=None)
    benchmark = open_data(recipe.data, device)
    epoch = benchmark.train_size() / _images_a_second(recipe, device, open_data)
    settings = replace(recipe.certify, precision=choose_precision(recipe.certify.precision, device))
    certifier = Certifier(build_model(recipe, benchmark, device).eval(), settings, expect=settings.examples)
    indices = range(min(images, benchmark.size("test")))
    timed = time_draws(certifier, benchmark, indices, settings, device)
    return epoch, timed.image(most_draws(settings)), benchmark.size("test") * timed.image(vote)


def _images_a_second(recipe: Recipe, device: torch.device, open_data: Opener) -> float:
    """The speed of training after its first steps."""
    speeds: list[float] = []
    began, timing = time.monotonic(), 0.0

    def watch(at: Standing) -> None:
        nonlocal timing
        speeds.append(at.images_a_second)
        if at.step > WARM_UP and not timing:
            timing = time.monotonic()

    def enough() -> bool:
        now = time.monotonic()
        return (timing > 0 and now - timing > TRAIN_SECONDS) or (bool(speeds) and now - began > LONGEST)

    with tempfile.TemporaryDirectory(prefix="ars-plan-") as folder, suppress(Interrupted):
        train_run(recipe, Path(folder) / "run", device=device, watch=watch, stop=enough, open_data=open_data)
    return speeds[-1]
