"""Certification on a Ray cluster: one actor per GPU loads the model once and takes one shard after another."""

import logging
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ars.atomic import remove_stale
from ars.certification.settings import CertifySettings
from ars.runs.records import Record
from ars.runs.shards import read_shard
from ars.workflows.request import Progress, Request

RETRIES = 5  # of a shard whose worker is lost
POLL_SECONDS, LOOK_SECONDS = 0.5, 1.0
SILENT_SECONDS = 10.0  # a worker that does not answer for longer is shown as such


class RayError(ValueError):
    """Ray is missing, or a piece of work lost its worker too often."""


def lost(how: str) -> RayError:
    """The error for work that cannot be done."""
    return RayError(f"{how}; finished work is kept, so check Ray's logs and run the same command again")


@dataclass(frozen=True)
class Cluster:
    """A connection to Ray, and what one worker takes of the cluster: gpus is 0 if there are none."""

    ray: Any
    gpus: float
    device_name: str

    @property
    def options(self) -> dict[str, float]:
        """What an actor or a task asks Ray for."""
        return {"num_cpus": 1, "num_gpus": self.gpus}

    def slots(self) -> int:
        """How many workers the cluster has room for now."""
        resources = self.ray.cluster_resources()
        return int(resources.get("GPU", 0)) * int(1 / self.gpus) if self.gpus else int(resources.get("CPU", 0))

    def result(self, task: Any) -> Any:
        """The result of a finished task; an error in a worker is raised as it was there."""
        try:
            return self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self.ray.exceptions.RayError as error:
            raise lost(type(error).__name__) from error


@contextmanager
def open_cluster(device_name: str, gpus_per_worker: float = 1.0, *, show_output: bool = False) -> Iterator[Cluster]:
    """Connect to the cluster that RAY_ADDRESS names, or start one on this machine; it ends with the block."""
    if not 0 < gpus_per_worker <= 1:
        raise ValueError(f"--gpus-per-worker must be above 0 and at most 1, got {gpus_per_worker:g}")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    ray = _import_ray()
    # workers can import what the driver can import, from whatever folder they start in
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths = os.pathsep.join(str(Path(path).absolute()) for path in [".", *given])
    environment = {"env_vars": {"PYTHONPATH": paths}}
    terminated = signal.getsignal(signal.SIGTERM)
    ray.init(
        log_to_driver=show_output, logging_level=logging.ERROR, runtime_env=environment, include_dashboard=False
    )  # fmt: skip
    signal.signal(signal.SIGTERM, terminated)  # Ray has put its own handler there
    try:
        gpu = device_name.startswith("cuda") or (device_name == "auto" and ray.cluster_resources().get("GPU", 0) > 0)
        yield Cluster(ray, gpus_per_worker if gpu else 0, "auto" if gpu else device_name)
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Opened:
    """What the first worker has found out about the job."""

    settings: CertifySettings
    about: str
    left: dict[int, int]
    at: Progress


class Worker:
    """Runs in an actor, in the driver's folder so that relative paths mean the same; keeps the job between shards."""

    def __init__(self, here: Path, device_name: str) -> None:
        os.chdir(here)
        self._device_name, self._drawn = device_name, 0
        self._request: Request | None = None

    def open(self, request: Request) -> Opened:
        """Load, check and compile the model, on the GPU that Ray has given to this actor for good."""
        from ars.workflows.certify import prepare  # imports torch
        from ars.workflows.hardware import choose_device

        self._job = prepare(request, choose_device(self._device_name))
        self._request = replace(request, settings=self._job.settings)
        left, at, _ = self._job.begun(range(self._job.layout.shards))
        return Opened(self._job.settings, self._job.about, left, at)

    def certify(self, request: Request, number: int, lacks: int) -> list[Record]:
        """Certify one shard, which lacks so many images; an actor that was restarted opens the job first."""
        self._drawn = 0
        if self._request != request:
            self.open(request)
        job = self._job
        # none are missing if the actor was lost after it had written the shard
        return job.certify_shard(number, self._count) or read_shard(job.folder, job.manifest, number)[-lacks:]

    def _count(self, draws: int) -> None:
        self._drawn += draws

    def look(self) -> tuple[str, int, int]:
        """The machine, the process, and the draws of the shard in flight; answered by a thread of its own."""
        return socket.gethostname(), os.getpid(), self._drawn


@dataclass
class Seat:
    """The driver's view of one actor: its shard in flight (None while it loads), and what it answered last.

    processes are those that have tried this shard: more than one if the actor was lost and restarted.
    """

    number: int
    actor: Any
    shard: int | None = None
    at_most: int = 0
    host: str = ""
    drawn: int = 0
    processes: set[tuple[str, int]] = field(default_factory=set)
    question: Any = None
    answered: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        silent = time.monotonic() - self.answered
        name = f"worker {self.number}{f' ({self.host})' if self.host else ''}"
        doing = "loading the model" if self.shard is None else f"shard {self.shard}"
        drawn = f", {self.drawn:,} draws" if self.drawn else ""
        return f"{name}: {doing}{drawn}" + (f", no answer for {silent:.0f} s" if silent > SILENT_SECONDS else "")

    def look(self, ray: Any) -> None:
        """Read the answer to the last question, if there is one, and ask again."""
        if self.question is not None and ray.wait([self.question], timeout=0)[0]:
            with suppress(ray.exceptions.RayError):  # it was lost, and Ray restarts it
                self.host, process, self.drawn = ray.get(self.question)
                self.processes.add((self.host, process))
                self.answered = time.monotonic()
            self.question = None
        self.question = self.question or self.actor.look.remote()
        if len(self.processes) > RETRIES:
            raise lost(f"shard {self.shard} lost its worker {len(self.processes)} times")


@dataclass
class Team:
    """The actors of one certification; seats holds what each of them is doing, by its task in flight."""

    cluster: Cluster
    request: Request
    seats: dict[Any, Seat] = field(default_factory=dict)
    hired: int = 0

    def hire(self) -> None:
        """Start another actor, which loads the model; it waits in Ray until there is room."""
        options = {**self.cluster.options, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": 2}
        actor = self.cluster.ray.remote(Worker).options(**options).remote(Path.cwd(), self.cluster.device_name)
        self.hired += 1
        self.seats[actor.open.remote(self.request)] = Seat(self.hired, actor)

    def give(self, seat: Seat, shard: int, images: int) -> None:
        """Hand out a shard."""
        seat.shard, seat.drawn, seat.processes = shard, 0, set()
        seat.at_most = images * (self.request.settings.n_select + self.request.settings.n_estimate)
        self.seats[seat.actor.certify.remote(self.request, shard, images)] = seat

    def finished(self) -> list[tuple[Seat, Any]]:
        """The actors that have ended their task, and the results; waits a moment for the first."""
        tasks = list(self.seats)
        self.cluster.ray.wait(tasks, timeout=POLL_SECONDS)
        ready, _ = self.cluster.ray.wait(tasks, num_returns=len(tasks), timeout=0)
        return [(self.seats.pop(task), self.cluster.result(task)) for task in ready]

    def dismiss_loading(self) -> None:
        """End the actors that have no shard yet."""
        for task in [task for task, seat in self.seats.items() if seat.shard is None]:
            self.cluster.ray.kill(self.seats.pop(task).actor)

    def look(self) -> None:
        """Ask each actor how far it is."""
        for seat in self.seats.values():
            seat.look(self.cluster.ray)

    def shown(self, at: Progress) -> Progress:
        """The progress with what each actor is doing."""
        seats = sorted(self.seats.values(), key=lambda seat: seat.number)
        drawn, at_most = (sum(getattr(seat, name) for seat in seats) for name in ("drawn", "at_most"))
        return replace(at, drawn=drawn, at_most=at_most, workers=tuple(map(str, seats)))


def certify_with_ray(
    request: Request,
    *,
    device_name: str = "auto",
    gpus_per_worker: float = 1.0,
    report: Callable[[Progress], None] = lambda progress: None,
    tell: Callable[[str], None] = lambda line: None,
    stop: Callable[[], bool] = lambda: False,
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Certify the missing shards with one actor per GPU, or per core; stop and over are those of certify_run.

    The actors write their shards themselves, so every node must see the run folder at the same path. The first one
    decides the precision for all. Ray restarts a lost actor where there is room, and repeats its shard in flight.
    """
    with open_cluster(device_name, gpus_per_worker) as cluster:
        remove_stale(request.records)
        team = Team(cluster, replace(request, folder=request.folder.resolve()))
        team.hire()
        at, began, looked, stopped = Progress(total=0), 0.0, 0.0, False
        waiting: deque[tuple[int, int]] | None = None  # shards and how many images each lacks, once that is known
        while team.seats:
            if over():
                raise KeyboardInterrupt
            stopped = stopped or stop()
            for seat, result in team.finished():
                if seat.shard is not None:
                    at = at.made(result, seconds=time.perf_counter() - began)
                elif waiting is None:
                    team.request, at = replace(team.request, settings=result.settings), result.at
                    waiting, began = (
                        deque((shard, count) for shard, count in result.left.items() if count),
                        time.perf_counter(),
                    )
                    if waiting:
                        tell(result.about)
                if waiting and not stopped:
                    team.give(seat, *waiting.popleft())
                else:
                    cluster.ray.kill(seat.actor)  # makes room for one that was lost and has none
            if stopped or (waiting is not None and not waiting):
                team.dismiss_loading()
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                team.look()
                while waiting and not stopped and team.hired < min(cluster.slots(), len(waiting) + len(team.seats)):
                    team.hire()
            if at.total and (team.seats or at.fresh):
                report(team.shown(at))
    if stopped and (waiting is None or at.done < at.total):
        raise KeyboardInterrupt


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise RayError("--engine ray needs Ray: pip install 'adaptive-smoothing[ray]'; or leave --engine out") from None
    return ray
