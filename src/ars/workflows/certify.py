"""Certifying the test images of a run: all checks come before the first draw, then one shard follows another."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from ars.atomic import remove_stale
from ars.certification.certifier import Certifier
from ars.certification.digest import digest_model
from ars.certification.settings import CertifySettings
from ars.certification.votes import Watch
from ars.data.benchmark import Benchmark, name_classes
from ars.kernels.precision import choose_precision
from ars.recipes.build import check_certifiable, check_subset
from ars.recipes.user_code import check_fit, explain_errors
from ars.runs.lock import check_kept
from ars.runs.paths import ENVIRONMENT, MODEL, digest_of
from ars.runs.provenance import make_manifest
from ars.runs.records import Record
from ars.runs.shards import SETTINGS, Layout, Manifest, begin, compare, read_manifest, read_shard, write_shard
from ars.runs.test_images import ImageStats, Judged, check_files, keep_files
from ars.smoothing import SmoothedClassifier
from ars.workflows.hardware import write_environment
from ars.workflows.processes import World
from ars.workflows.request import Progress, Request

SAMPLED = 16


def sampled_images(benchmark: Benchmark) -> Float[Tensor, "b c h w"]:
    """A sample of the test images, by which changes of the test set are noticed."""
    return benchmark.examples("test", sampled_indices(benchmark.size("test")))[0]


def image_statistics(benchmark: Benchmark, images: Float[Tensor, "b c h w"]) -> ImageStats:
    """The size of the test set; then brightness, brightness of left and upper halves, and contrast of these images."""
    height, width = images.shape[-2:]
    parts = (images, images[..., : max(1, width // 2)], images[..., : max(1, height // 2), :])
    numbers = [*(part.flatten(1).mean(1) for part in parts), images.flatten(1).std(1)]
    return (float(benchmark.size("test")), *(round(number, 4) for row in numbers for number in row.tolist()))


def sampled_indices(total: int) -> list[int]:
    """The first image, the last, and some in between.

    >>> sampled_indices(3), sampled_indices(1000)[:3], sampled_indices(1000)[-1]
    ([0, 1, 2], [0, 67, 133], 999)
    """
    return sorted({round(number * (total - 1) / (SAMPLED - 1)) for number in range(SAMPLED)})


@dataclass(frozen=True)
class Job:
    """One certification, checked and started: what is certified, how, and where its shards go."""

    folder: Path
    manifest: Manifest
    settings: CertifySettings
    benchmark: Benchmark
    certifier: Certifier
    device: torch.device
    code_name: str | None = None
    """The import path of the user's own code, if the model comes from there."""

    @property
    def layout(self) -> Layout:
        """Which images belong to which shard."""
        return self.manifest.layout

    @property
    def about(self) -> str:
        """How much of the test set is certified; for the user's own folder also the classes and the choice of files."""
        _, height, width = self.benchmark.shape
        line = f"{self.benchmark.title}: certifying {self.manifest.judged}, at {width}x{height}"
        if self.benchmark.chosen is None:
            return line
        classes = name_classes(self.benchmark.class_names)
        return f"{line}; the test images are {self.benchmark.chosen.how}; classes: {classes}"

    def missing(self, number: int, have: Sequence[Record]) -> list[int]:
        """The images of a shard that have no record yet."""
        done = {record.certificate.index for record in have}
        return [index for index in self.layout.images(number) if index not in done]

    def begun(self, shards: Iterable[int]) -> tuple[dict[int, int], Progress, list[Record]]:
        """How many images each of these shards still needs, the progress so far, and the records that exist."""
        have = {number: read_shard(self.folder, self.manifest, number) for number in shards}
        left = {number: len(self.missing(number, records)) for number, records in have.items()}
        found = [record for records in have.values() for record in records]
        return left, Progress(total=len(found) + sum(left.values())).found(found), found

    def certify_shard(self, number: int, watch: Watch | None = None) -> list[Record]:
        """Certify the missing images of a shard, write the shard as a whole, and return the new records."""
        check_kept(self.folder / SETTINGS)
        have = read_shard(self.folder, self.manifest, number)
        indices = self.missing(number, have)
        if not indices:
            return []
        images, labels = (part.to(self.device) for part in self.benchmark.examples("test", indices))
        began = time.perf_counter()
        with explain_errors(self.code_name):
            certificates = self.certifier(images, indices, watch=watch)
        seconds = (time.perf_counter() - began) / len(indices)
        fresh = [
            Record(certificate, truth, self.layout.name, seconds, self.manifest.model)
            for certificate, truth in zip(certificates, labels.tolist(), strict=True)
        ]
        check_kept(self.folder / SETTINGS)
        # keep what another process has written meanwhile: it may certify more images of this shard
        present = read_shard(self.folder, self.manifest, number)
        done = {record.certificate.index for record in present}
        new = [record for record in fresh if record.certificate.index not in done]
        write_shard(self.folder, number, [*present, *new])
        return fresh


def prepare(request: Request, device: torch.device) -> Job:
    """Load the model, check the request and write the manifest; a refused request leaves nothing behind."""
    with explain_errors(request.code_name):
        job, model = _open(request, device)
        if request.given:
            request.given.claim(request.folder, model, job.benchmark, device)
    begin(job.folder, job.manifest)
    if job.benchmark.chosen:
        keep_files(job.folder, job.benchmark.chosen.files)
    if not (job.folder / ENVIRONMENT).exists():  # it describes the machine that started the certification
        write_environment(job.folder, device)
    return job


def open_job(request: Request, device: torch.device) -> Job:
    """The same checks, but nothing is written."""
    with explain_errors(request.code_name):
        job, _ = _open(request, device)
    compare(job.folder, job.manifest)
    return job


def _open(request: Request, device: torch.device) -> tuple[Job, SmoothedClassifier]:
    benchmark, model = request.load(device)
    digest = digest_model(model)  # before the model runs, which may change it
    images = sampled_images(benchmark).to(device)
    if request.given:
        check_fit(request.given.model, model, benchmark, images[:1])
    settings = request.settings_for(benchmark.size("test"))
    exact = settings.exact or model.mechanism.exact  # a model may bring exact steps of its own
    settings = replace(settings, precision=choose_precision(settings.precision, device), exact=exact)
    check_certifiable(model, settings, benchmark.shape)
    wanted = make_manifest(
        settings,
        model=digest,
        images=image_statistics(benchmark, images),
        files=benchmark.chosen.digest if benchmark.chosen else "",
        weights=digest_of(request.folder / MODEL) if request.from_folder_alone else "",
        order=benchmark.chosen.order if benchmark.chosen else "",
        shard_size=request.shard_size,
        begun=read_manifest(request.records),
    )
    check_subset(benchmark, settings)
    truths = benchmark.labels("test", wanted.layout.indices).tolist()
    judged = Judged.of(truths, of_images=benchmark.size("test"), of_classes=len(benchmark.class_names))
    wanted = replace(wanted, judged=judged)
    certifier = Certifier(model, settings, expect=settings.examples)
    certifier.prepare(images)
    check_files(request.records, benchmark.chosen.files if benchmark.chosen else ())
    return Job(request.records, wanted, settings, benchmark, certifier, device, request.code_name), model


REPORT_SECONDS = 1.0  # between two reports on the shard in progress


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
    """Certify the missing shards of this rank; each is on disk as a whole before the next one starts.

    tell is called with a line that describes the work. stop is checked before each shard. over is checked within a
    shard; if it returns True, the draws of that shard are discarded.

    The images of a shard and their noise depend neither on the number of ranks nor on what is already done.
    """
    job = prepare(request, device)
    for folder in (request.folder, job.folder):
        remove_stale(folder)
    left, at, records = job.begun(world.share(job.layout.shards))
    began = time.perf_counter()
    if at.done < at.total:
        tell(job.about)
        report(at)
    for number in (number for number, count in left.items() if count):
        if stop():
            raise KeyboardInterrupt
        at_most = left[number] * (job.settings.n_select + job.settings.n_estimate)
        fresh = job.certify_shard(number, _within_a_shard(at, at_most, report, over))
        records += fresh
        at = at.made(fresh, seconds=time.perf_counter() - began)
        report(at)
    return records


def _within_a_shard(
    at: Progress, at_most: int, report: Callable[[Progress], None], over: Callable[[], bool]
) -> Callable[[int], None]:
    """A function that counts draws, reports the count about once per second, and stops the shard when it is over."""
    drawn, reported = 0, time.monotonic()

    def watch(draws: int) -> None:
        nonlocal drawn, reported
        drawn += draws
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            report(replace(at, drawn=drawn, at_most=at_most))
            if over():
                raise KeyboardInterrupt

    return watch
