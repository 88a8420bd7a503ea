"""Certification by this process, or by several that never talk to each other: each has its share of the shards."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from ars.certification.records import Record
from ars.certification.sampling import watched
from ars.certification.shards import read_shard
from ars.certification.writing import remove_stale
from ars.experiments.certifying.job import prepare
from ars.experiments.certifying.progress import Progress
from ars.experiments.certifying.request import Request
from ars.experiments.world import World

TOLD_SECONDS = 1.0  # between two words about the shard under way


def certify_run(
    request: Request,
    *,
    device: torch.device,
    world: World = World(),  # noqa: B008 (frozen)
    report: Callable[[Progress], None] = lambda progress: None,
    tell: Callable[[str], None] = lambda line: None,
    stop: Callable[[], bool] = lambda: False,
    over: Callable[[], bool] = lambda: False,
) -> Sequence[Record]:
    """Certify this rank's shards that are not there yet; each is on disk as a whole before the next begins.

    tell hears what is certified, where that is to be said. stop is asked before each shard; over within it, and then
    its draws are given up, to be made again.

    Which images a shard holds and which noise they see depend on neither the world nor on what is done already.
    """
    job = prepare(request, device)
    remove_stale(job.folder)
    shards = {number: read_shard(job.folder, job.manifest, number) for number in world.share(job.layout.shards)}
    left = {number: len(job.missing(number, have)) for number, have in shards.items()}
    records = [record for have in shards.values() for record in have]
    at, began = Progress(total=len(records) + sum(left.values())).found(records), time.perf_counter()
    if at.done < at.total:
        tell(job.about)
        report(at)
    for number in (number for number, count in left.items() if count):
        if stop():
            raise KeyboardInterrupt
        at_most = left[number] * (job.settings.n_select + job.settings.n_estimate)
        with watched(_within_a_shard(at, at_most, report, over)):
            fresh = job.certify_shard(number)
        records += fresh
        at = at.made(fresh, seconds=time.perf_counter() - began)
        report(at)
    return records


def _within_a_shard(
    at: Progress, at_most: int, report: Callable[[Progress], None], over: Callable[[], bool]
) -> Callable[[int], None]:
    """What hears of draws, reports now and then how many of the shard's were made, and gives it up if it must."""
    drawn, told = 0, time.monotonic()

    def watch(draws: int) -> None:
        nonlocal drawn, told
        drawn += draws
        if time.monotonic() - told >= TOLD_SECONDS:
            told = time.monotonic()
            report(replace(at, drawn=drawn, at_most=at_most))
            if over():
                raise KeyboardInterrupt

    return watch
