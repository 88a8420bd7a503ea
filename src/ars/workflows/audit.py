"""Auditing a model: its images from a benchmark, the checks, then the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ars.audit.draws import AuditSettings
from ars.audit.model_audit import Report, audit_model
from ars.data.benchmark import Benchmark, Opener, open_benchmark
from ars.recipes.user_code import check_fit, explain_errors
from ars.report.audit_page import INDEX, write_audit
from ars.runs.audits import Audit
from ars.runs.paths import AUDIT, AUDIT_FILE
from ars.smoothing import SmoothedClassifier
from ars.theory.rounding import as_whole
from ars.workflows.imported_model import Given
from ars.workflows.load import load_run


@dataclass(frozen=True)
class Audited:
    """What is audited: a run folder, or a model that was not trained here with its benchmark."""

    folder: Path | None = None
    given: Given | None = None
    classifier: str | None = None
    moved: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in the report."""
        return self.given.model if self.given else str(self.folder)

    @property
    def out(self) -> Path:
        """Where the report goes unless told otherwise."""
        return self.folder / AUDIT if self.folder else Path(AUDIT)

    def load(self, device: torch.device, open_data: Opener) -> tuple[Benchmark, SmoothedClassifier]:
        """The benchmark and the model."""
        if self.given:
            return self.given.load(device)
        assert self.folder is not None
        return load_run(self.folder, device, classifier=self.classifier, moved=self.moved, open_data=open_data)[1:]


def audit_and_report(
    audited: Audited,
    settings: AuditSettings,
    *,
    examples: int,
    out: Path,
    device: torch.device,
    report: Report = lambda doing, done, total: None,
    stop: Callable[[], bool] = lambda: False,
    open_data: Opener = open_benchmark,
) -> tuple[Audit, Sequence[Path]]:
    """Audit a model on the first test images of its benchmark, and write the report into out."""
    as_whole("examples", examples, least=1)
    if (out / INDEX).exists() and not (out / AUDIT_FILE).exists():
        raise ValueError(f"{out} holds another page, {INDEX}; choose another folder with --out")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; choose a folder with --out")
    benchmark, model = audited.load(device, open_data)
    if examples > benchmark.size("test"):
        raise ValueError(f"{benchmark.title} has {benchmark.size('test')} test images; give --examples up to that")
    images = benchmark.examples("test", range(examples))[0].to(device)
    code = audited.given.model if audited.given else audited.classifier
    with explain_errors(code):
        if audited.given:
            check_fit(audited.given.model, model, benchmark, images[:1])
        audit = audit_model(model, images, settings=settings, name=audited.name, report=report, stop=stop)
    return audit, write_audit(out, audit)
