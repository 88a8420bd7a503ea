"""Certification on a Ray cluster, one task per shard: if a worker or node is lost, only its shard is tried again."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ars.runs.records import Record
from ars.workflows.certify import Job, prepare
from ars.workflows.hardware import choose_device
from ars.workflows.request import Progress, Request

RETRIES = 3


class RayError(RuntimeError, ValueError):
    """Ray is missing, or a shard lost its worker too often."""


def certify_with_ray(
    request: Request,
    *,
    device_name: str = "auto",
    report: Callable[[Progress], None] = lambda progress: None,
    tell: Callable[[str], None] = lambda line: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Certify the missing shards on the cluster that RAY_ADDRESS names, or on this machine.

    The workers write their own shards, so every node must see the run folder at the same path. The precision is
    decided here, once for all workers.
    """
    ray = _import_ray()
    job = prepare(request, choose_device(device_name))
    left, at, _ = job.begun(range(job.layout.shards))
    if at.done == at.total:
        return
    tell(job.about)
    report(at)
    # workers can import what the driver can import
    paths = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    local = {} if "RAY_ADDRESS" in os.environ else {"include_dashboard": False}
    ray.init(log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": {"PYTHONPATH": paths}}, **local)
    try:
        began = time.perf_counter()
        gpu = device_name != "cpu" and ray.cluster_resources().get("GPU", 0) > 0
        task = ray.remote(certify_chunk).options(num_cpus=1, num_gpus=1 if gpu else 0, max_retries=RETRIES)
        decided = replace(request, folder=request.folder.resolve(), settings=job.settings)
        chunk = (Path.cwd(), decided, "auto" if gpu else device_name)
        for records in _results(ray, [task.remote(*chunk, number) for number, count in left.items() if count], stop):
            at = at.made(records, seconds=time.perf_counter() - began)
            report(at)
    finally:
        ray.shutdown()


def certify_chunk(here: Path, request: Request, device_name: str, number: int) -> list[Record]:
    """Runs in a worker: certify one shard, in the driver's folder so that relative paths mean the same."""
    os.chdir(here)
    return _job(request, device_name).certify_shard(number)


@lru_cache(maxsize=1)
def _job(request: Request, device_name: str) -> Job:
    """The job, loaded once per worker."""
    return prepare(request, choose_device(device_name))


def _results(ray: Any, tasks: list[Any], stop: Callable[[], bool]) -> Iterator[list[Record]]:
    while tasks:
        if stop():
            raise KeyboardInterrupt
        ready, tasks = ray.wait(tasks, num_returns=1, timeout=0.5)
        for task in ready:
            try:
                yield ray.get(task)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except ray.exceptions.RayError as error:
                raise RayError(
                    f"a shard lost its worker {RETRIES + 1} times ({type(error).__name__}); finished shards are kept, "
                    "so check Ray's logs and run the same command again"
                ) from error


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise RayError("--engine ray needs Ray: pip install 'adaptive-smoothing[ray]'; or leave --engine out") from None
    return ray
