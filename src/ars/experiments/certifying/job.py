"""One certification, checked before anything is drawn, and each of its shards."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch

from ars.certification.certificate import Certificate
from ars.certification.file_names import check_files, keep_files
from ars.certification.in_precision import check_precision
from ars.certification.independence import check_independent
from ars.certification.judged import Judged
from ars.certification.procedure import certify
from ars.certification.records import Record
from ars.certification.run_folder import ENVIRONMENT, MODEL, digest_of
from ars.certification.sampling import Precision
from ars.certification.shards import Layout, Manifest, begin, read_manifest, read_shard, write_shard
from ars.data.benchmark import Benchmark, name_classes
from ars.experiments.certifiable import check_certifiable, check_subset
from ars.experiments.certifying.beginning import make_manifest
from ars.experiments.certifying.request import Request
from ars.experiments.device import choose_precision
from ars.experiments.environment import write_environment
from ars.experiments.fingerprint import fingerprint
from ars.experiments.looking import how_they_look, look_at
from ars.experiments.others_code import telling
from ars.experiments.recipe import CertifySettings
from ars.smoothing import SmoothedClassifier


@dataclass(frozen=True)
class Job:
    """One certification, checked and begun: what is certified, how, and where its shards go."""

    folder: Path
    manifest: Manifest
    settings: CertifySettings
    benchmark: Benchmark
    model: SmoothedClassifier
    device: torch.device
    whose: str | None = None
    """The name of code of one's own that the model is of."""

    @property
    def layout(self) -> Layout:
        """Which images belong to which shard."""
        return self.manifest.layout

    @property
    def about(self) -> str:
        """How much of the test set is certified; of a folder of one's own, also which part and which classes."""
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

    def certify_shard(self, number: int) -> list[Record]:
        """Certify what a shard lacks, write the shard as a whole, and return what was new."""
        have = read_shard(self.folder, self.manifest, number)
        indices = self.missing(number, have)
        if not indices:
            return []
        images, labels = (part.to(self.device) for part in self.benchmark.examples("test", indices))
        began = time.perf_counter()
        with telling(self.whose):
            certificates = certify_images(self.model, images, self.settings, indices)
        seconds = (time.perf_counter() - began) / len(indices)
        fresh = [
            Record(certificate, truth, self.layout.name, seconds, self.manifest.model)
            for certificate, truth in zip(certificates, labels.tolist(), strict=True)
        ]
        # what another process has written meanwhile stays: it may have been asked for more images of this shard
        there = read_shard(self.folder, self.manifest, number)
        done = {record.certificate.index for record in there}
        write_shard(self.folder, number, [*there, *(it for it in fresh if it.certificate.index not in done)])
        return fresh


def prepare(request: Request, device: torch.device) -> Job:
    """Load the model, check the request and write the manifest; refused requests leave nothing behind."""
    with telling(request.whose):
        return _prepare(request, device)


def _prepare(request: Request, device: torch.device) -> Job:
    records = request.records
    benchmark, model = request.load(device)
    digest = fingerprint(model)  # now, before it answers
    if request.given:
        request.given.check_fit(benchmark, model, device)
    settings = request.settings_for(benchmark.size("test"))
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    check_certifiable(model, settings, benchmark.shape)
    some = look_at(benchmark).to(device)
    wanted = make_manifest(
        settings,
        model=digest,
        images=how_they_look(benchmark, some),
        files=benchmark.chosen.digest if benchmark.chosen else "",
        weights="" if request.given else digest_of(request.folder / MODEL),
        order=benchmark.chosen.order if benchmark.chosen else "",
        shard_size=request.shard_size,
        begun=read_manifest(records),
    )
    check_subset(benchmark, settings)
    truths = benchmark.labels("test", wanted.layout.indices).tolist()
    judged = Judged.of(truths, of_images=benchmark.size("test"), of_classes=len(benchmark.class_names))
    wanted = replace(wanted, judged=judged)
    check_independent(model, some)
    check_precision(model, some, cast(Precision, settings.precision))
    files = benchmark.chosen.files if benchmark.chosen else ()
    check_files(records, files)
    if request.given:
        request.given.claim(request.folder, model, benchmark, device)
    begin(records, wanted)
    if files:
        keep_files(records, files)
    if not (records / ENVIRONMENT).exists():  # of the machine that began
        write_environment(records, device)
    return Job(records, wanted, settings, benchmark, model, device, request.whose)


def certify_images(
    model: SmoothedClassifier, images: torch.Tensor, settings: CertifySettings, indices: Sequence[int]
) -> list[Certificate]:
    """Certify a batch as the settings say; their precision is one that was chosen."""
    certificates = certify(
        model,
        images,
        norm=settings.norm,
        n_select=settings.n_select,
        n_estimate=settings.n_estimate,
        alpha=settings.alpha,
        seed=settings.seed,
        bound=settings.bound,
        mode=settings.mode,
        radii=settings.radii,
        tolerance=settings.tolerance,
        indices=indices,
        precision=cast(Precision, settings.precision),
    )
    return cast(list[Certificate], certificates)
