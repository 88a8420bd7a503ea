"""From a model and a dataset in Python to records, a table and a curve; the records are those of a run folder."""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ars.adapters import Adapted
from ars.adapters.datasets import TestImages, class_names_of
from ars.atomic import write_whole
from ars.certification.bounds import Bound
from ars.certification.certifier import check_smoothed
from ars.certification.model_copy import copy_model
from ars.certification.settings import CertifySettings, Mode, fresh_seed
from ars.certification.votes import draw_logits
from ars.data.benchmark import Benchmark
from ars.kernels.precision import Precision
from ars.recipes.read import DATASET
from ars.report.curves import draw_curves
from ars.report.grouping import make_sections
from ars.report.measures import outcomes
from ars.report.rendering import to_markdown
from ars.report.table import Table, make_table
from ars.runs.logs import to_log
from ars.runs.paths import MAIN
from ars.runs.provenance import begun_settings
from ars.runs.records import Record
from ars.runs.run import Run, load_runs
from ars.smoothing import SmoothedClassifier
from ars.theory import Norm
from ars.workflows.certify import certify_run
from ars.workflows.hardware import choose_device
from ars.workflows.imported_model import claim_folder, combined_noise, match_classes
from ars.workflows.request import Progress, Request

SECONDS = 10.0  # between two lines of progress


@dataclass(frozen=True)
class Evaluation:
    """What was measured: one record per image, and the table and curve made from them."""

    run: Run

    @property
    def records(self) -> tuple[Record, ...]:
        """The certificate and the true label of each image."""
        return self.run.records

    @property
    def table(self) -> Table:
        """The table of ars report; str(...) of the evaluation has it as text."""
        return make_table(make_sections([self.run]))

    def curve(self, radii: Sequence[float] | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Radii in pixel units and the certified accuracy at each: the share that is right with at least that radius.

        Without radii, they are 0 and all at which the accuracy drops; in mode "curve", those that were decided.
        """
        answers = outcomes(self.records, self.run.settings.bound)
        if radii is None:
            radii = answers.grid or [0.0, *sorted({float(radius) for radius in answers.radius[answers.correct]})]
        accuracy = [answers.certified_accuracy(radius) for radius in radii]
        if None in accuracy:
            raise ValueError(f"only the radii {', '.join(map(str, answers.grid))} were decided; ask for some of them")
        return np.array(radii, dtype=np.float64), np.array(accuracy, dtype=np.float64)

    def draw(self, path: str | Path) -> None:
        """Write the curve as an SVG or PNG picture."""
        picture = draw_curves(self.table.sections)
        write_whole(Path(path), picture.png if Path(path).suffix == ".png" else picture.svg)

    def log(self) -> str:
        """One line per image, in the form of locuslab/smoothing."""
        return to_log(self.records)

    def __str__(self) -> str:
        return to_markdown(self.table)


@dataclass(frozen=True)
class Held:
    """A model and images that are Python objects, with the name of the model in tables."""

    model: str
    smoothed: SmoothedClassifier
    images: TestImages

    def load(self, device: torch.device) -> tuple[Benchmark, SmoothedClassifier]:
        """The images and a copy of the model, on the device."""
        return self.images, self.smoothed

    def claim(self, folder: Path, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
        """Write what a report needs into a new folder; refuse a folder with another model or anything else."""
        data = {"kind": DATASET, "title": benchmark.title}
        content = {"model": self.model, "method": self.model, "sigma": combined_noise(model), "seed": 0, "data": data}
        claim_folder(folder, content, {}, benchmark, device)


def evaluate(
    model: SmoothedClassifier,
    data: Any,
    *,
    examples: int = 100,
    every: int = 1,
    norm: Norm = "linf",
    n_select: int = 100,
    n_estimate: int = 1000,
    alpha: float = 0.05,
    bound: Bound = "cohen",
    mode: Mode = "fixed",
    radii: Sequence[float] = (),
    tolerance: float | None = None,
    seed: int | None = None,
    precision: Precision | Literal["auto"] = "auto",
    exact: bool = False,
    class_names: Sequence[str] | None = None,
    name: str = "model",
    title: str | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Certify images of a dataset and return records, table and curve; each certificate is one of ars.certify.

    data is a torch dataset, its DataLoader (whatever its sampler), a dataset of Hugging Face, or a list. Items are
    pairs (image, label) or have the keys image and label; images are pictures, arrays or tensors in [0, 1], of one
    shape. The first ``examples`` images are certified, or every ``every``-th one; if there are fewer, all.

    With out, the records go to that run folder: the same call resumes there, and ``ars report`` reads it. name and
    title are those of the model and the images in tables. Without a seed one is drawn, which the records hold.
    """
    check_smoothed(model)
    used = choose_device(device)
    copy = copy_model(model).to(used)
    images = TestImages(data, title=title or _title(data), class_names=(), device=used)
    stated = tuple(class_names or class_names_of(data))
    if isinstance(copy.classifier, Adapted):
        copy.classifier = match_classes(copy.classifier, stated)
        stated = stated or copy.classifier.class_names
    images.class_names = stated or tuple(map(str, range(_classes(copy, images))))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(out).expanduser() if out is not None else Path(temporary) / name
        begun = begun_settings(folder, MAIN)
        settings = CertifySettings(
            examples=examples,
            every=every,
            norm=norm,
            n_select=n_select,
            n_estimate=n_estimate,
            alpha=alpha,
            bound=bound,
            mode=mode,
            radii=tuple(radii),
            tolerance=tolerance,
            seed=seed if seed is not None else begun.seed if begun else fresh_seed(),
            precision=precision,
            exact=exact,
        )
        request = Request(folder, settings, given=Held(name, copy, images), at_most=True)
        certify_run(request, device=used, report=progress or _Lines())
        return Evaluation(load_runs([folder])[0])


def _classes(model: SmoothedClassifier, images: TestImages) -> int:
    """The number of logits."""
    first, _ = images.examples("test", [0])
    with torch.inference_mode():
        logits = draw_logits(model, first, torch.Generator(first.device).manual_seed(0))
    return logits.shape[1]


def _title(data: Any) -> str:
    kind = type(getattr(data, "dataset", data)).__name__
    return "images" if kind in ("list", "tuple", "Dataset", "Subset", "TensorDataset") else kind


class _Lines:
    """Reports progress on the error stream, at most one line every ten seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS

    def __call__(self, at: Progress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS
        left = f", {at.seconds_left:.0f} s left" if at.seconds_left is not None else ""
        print(f"certified {at.done} of {at.total} images{left}", file=sys.stderr, flush=True)
