"""The request to certify images of a run, as every engine takes it; loads no torch."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ars.certification.settings import CertifySettings
from ars.runs.paths import MAIN, records_folder

if TYPE_CHECKING:
    import torch

    from ars.data.benchmark import Benchmark, Opener
    from ars.smoothing import SmoothedClassifier
    from ars.workflows.imported_model import Source


@dataclass(frozen=True)
class Request:
    """A request to certify test images of the run in a folder with these settings; the records go to certify/<name>.

    shard_size None means that of existing records, else the default. given is a model that the folder alone does not
    hold. With at_most, settings.examples is a limit: if there are fewer images, all are certified. open_data opens the
    benchmark; None means open_benchmark.
    """

    folder: Path
    settings: CertifySettings
    name: str = MAIN
    shard_size: int | None = None
    given: "Source | None" = None
    at_most: bool = False
    open_data: "Opener | None" = None

    @property
    def code_name(self) -> str | None:
        """The import path of the user's own code that is certified; None if there is none."""
        return self.given.name if self.given else None

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
        return load_run(self.folder, device, open_data=self.open_data or open_benchmark)[1:]
