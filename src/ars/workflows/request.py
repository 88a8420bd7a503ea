"""What every engine of a certification takes and reports: the request and its progress; loads no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ars.certification.settings import CertifySettings
from ars.runs.paths import MAIN, records_folder
from ars.runs.records import Record

if TYPE_CHECKING:
    import torch

    from ars.data.benchmark import Benchmark, Opener
    from ars.smoothing import SmoothedClassifier


class Source(Protocol):
    """A model that was not trained here, with its images: imported code, or objects in Python."""

    @property
    def model(self) -> str:
        """The name of the model in tables and messages."""

    def load(self, device: "torch.device") -> "tuple[Benchmark, SmoothedClassifier]":
        """The images and the model, which has not run yet."""

    def claim(self, folder: Path, model: "SmoothedClassifier", benchmark: "Benchmark", device: "torch.device") -> None:
        """Write what a report needs into a new folder; refuse a folder with another model or anything else."""


@dataclass(frozen=True)
class Request:
    """A request to certify test images of the run in a folder with these settings; the records go to certify/<name>.

    shard_size None means that of existing records, else the default. given is a model that was not trained here. For
    one that was, classifier is the import path of the user's own classifier, and moved overrides its recipe with the
    new place of its data. With at_most, settings.examples is a limit: if there are fewer images, all are certified.
    open_data opens the benchmark; None means open_benchmark.
    """

    folder: Path
    settings: CertifySettings
    name: str = MAIN
    shard_size: int | None = None
    given: "Source | None" = None
    classifier: str | None = None
    moved: tuple[str, ...] = ()
    at_most: bool = False
    open_data: "Opener | None" = None

    @property
    def code_name(self) -> str | None:
        """The import path of the user's own code that is certified; None if there is none."""
        return self.given.model if self.given else self.classifier

    @property
    def from_folder_alone(self) -> bool:
        """Whether the folder holds all of the model and says where its data is."""
        return not (self.given or self.classifier or self.moved)

    @property
    def records(self) -> Path:
        """Where the records go."""
        return records_folder(self.folder, self.name)

    def settings_for(self, images: int) -> CertifySettings:
        """The settings for a test set of so many images."""
        most = len(range(0, images, self.settings.every))
        return replace(self.settings, examples=min(self.settings.examples, most)) if self.at_most else self.settings

    def load(self, device: "torch.device") -> "tuple[Benchmark, SmoothedClassifier]":
        """The benchmark and the model, in eval mode."""
        from ars.data.benchmark import open_benchmark  # imports torch
        from ars.workflows.load import load_run

        if self.given:
            return self.given.load(device)
        open_data = self.open_data or open_benchmark
        return load_run(self.folder, device, classifier=self.classifier, moved=self.moved, open_data=open_data)[1:]


@dataclass(frozen=True)
class Progress:
    """Counts over the images of this process's shards: total, done (in all sessions) and fresh (in this session).

    draws and seconds are those of this session. right counts labels that are right and certified; radii is the sum of
    their radii. In the shards in progress, drawn of at_most draws are made. workers says what each Ray worker does.
    """

    total: int
    done: int = 0
    fresh: int = 0
    draws: int = 0
    seconds: float = 0.0
    right: int = 0
    radii: float = 0.0
    drawn: int = 0
    at_most: int = 0
    workers: tuple[str, ...] = ()

    def found(self, records: Sequence[Record]) -> "Progress":
        """The progress after adding records of an earlier session."""
        right = [record.certificate.radius for record in records if record.correct]
        return replace(
            self, done=self.done + len(records), right=self.right + len(right), radii=self.radii + sum(right)
        )

    def made(self, records: Sequence[Record], *, seconds: float) -> "Progress":
        """The progress after adding records of this session, which has taken so many seconds."""
        certificates = [record.certificate for record in records]
        draws = sum(sum(certificate.counts) + sum(certificate.select_counts) for certificate in certificates)
        found = self.found(records)
        fresh = self.fresh + len(records)
        return replace(found, fresh=fresh, draws=self.draws + draws, seconds=seconds, drawn=0, at_most=0)

    @property
    def draws_a_second(self) -> float:
        """The average over this session."""
        return self.draws / self.seconds if self.seconds > 0 else 0.0

    @property
    def certified(self) -> float:
        """The share of images whose label is right and certified."""
        return self.right / max(self.done, 1)

    @property
    def average_radius(self) -> float:
        """The mean over all images; wrong labels and abstentions count as 0."""
        return self.radii / max(self.done, 1)

    @property
    def seconds_left(self) -> float | None:
        """The remaining time at this session's pace; None before its first image."""
        return self.seconds / self.fresh * (self.total - self.done) if self.fresh else None
