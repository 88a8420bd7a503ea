"""What is asked to be certified, as every engine takes it; loads no torch."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ars.certification.run_folder import MAIN, records_folder
from ars.experiments.recipe import CertifySettings

if TYPE_CHECKING:
    import torch

    from ars.data.benchmark import Benchmark
    from ars.experiments.certifying.given import Source
    from ars.smoothing import SmoothedClassifier


@dataclass(frozen=True)
class Request:
    """Test images of the run in a folder, certified as the settings say, their records under a name.

    shard_size is that of what was begun, else the usual one, where it is not given; given is what the folder alone does
    not hold. With at_most, the number of examples was not asked for: where there are fewer, all are meant.
    """

    folder: Path
    settings: CertifySettings
    name: str = MAIN
    shard_size: int | None = None
    given: "Source | None" = None
    at_most: bool = False

    @property
    def whose(self) -> str | None:
        """The name of code of one's own that is certified; None where all of it is ours."""
        return self.given.name if self.given else None

    @property
    def records(self) -> Path:
        """Where the records go."""
        return records_folder(self.folder, self.name)

    def settings_for(self, images: int) -> CertifySettings:
        """The settings, for so many test images."""
        there = len(range(0, images, self.settings.every))
        return replace(self.settings, examples=min(self.settings.examples, there)) if self.at_most else self.settings

    def load(self, device: "torch.device") -> "tuple[Benchmark, SmoothedClassifier]":
        """The benchmark and the model, in eval mode."""
        from ars.experiments.run import load_run  # imports torch

        return self.given.load(device) if self.given else load_run(self.folder, device)[1:]
