"""A run folder, read into one frozen object: the report's only source."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from ars.certification.bounds import BOUNDS, Bound
from ars.certification.certificate import Certificate
from ars.certification.file_names import read_files
from ars.certification.judged import Judged
from ars.certification.records import Record, RecordError
from ars.certification.run_folder import BENCHMARK, ENVIRONMENT, FILES, MAIN, RECIPE, STAGES, records_folder
from ars.certification.schedule import Schedule
from ars.certification.shards import Merged
from ars.report.errors import ReportError
from ars.report.inputs import Inputs
from ars.report.packed import read_certification
from ars.theory import Norm

ADVICE = "put a copy of the file in its place, as the run has written it"
INPUT_DEPENDENT = {"sukenik"}  # methods whose noise level differs from image to image
STEPS = {"cohen": 1, "static_mask": 1, "unicr": 1, "sukenik": 1, "adaptive": 2}  # noisy looks at an image


@dataclass(frozen=True)
class Settings:
    """How a run was certified; the same for all of its records."""

    schedule: Schedule
    alpha: float
    norm: Norm
    dim: int
    sigmas: tuple[float, ...]
    """Empty where each image has its own."""
    seed: int
    bound: Bound
    precision: str
    n_select: int
    subset: str


@dataclass(frozen=True)
class About:
    """What a run folder keeps of its benchmark; the mean and deviation of each channel where it was trained on that."""

    title: str
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    moments: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Run:
    """One trained and certified model: what its recipe says, its benchmark and its records in the order of index.

    missing counts the images that have no record yet, where a report on what is there was asked for.
    """

    path: Path
    name: str
    method: str
    sigma: float
    learned_split: bool
    seed: int
    kind: str
    title: str
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    settings: Settings
    records: tuple[Record, ...]
    missing: int
    files: tuple[str, ...]
    """Of a folder of one's own, the file of each test image by its index."""
    stages: Path | None
    environment: dict[str, str]
    recipe: dict[str, Any]
    inputs: Inputs
    model: str
    """The digest of the weights, as the manifest has it."""

    def same_images(self, other: "Run") -> bool:
        """Whether both answered for the same test images, as far as recipes and records tell."""
        mine, theirs = ([(it.certificate.index, it.truth) for it in run.records] for run in (self, other))
        return self.settings.subset == other.settings.subset and mine == theirs and self.inputs.same(other.inputs)

    @property
    def judged(self) -> Judged:
        """How much of the test set the records are of."""
        truths = (record.truth for record in self.records)
        total = int(self.inputs.images[0]) if self.inputs.images else None
        return Judged.of(truths, of_images=total, of_classes=len(self.class_names))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The run's chosen bound, then every other one under which all of its records carry a radius."""
        chosen = self.settings.bound
        others = (bound for bound in BOUNDS if bound != chosen)
        return chosen, *(bound for bound in others if all(bound in record.certificate.radii for record in self.records))


def load_runs(paths: Sequence[Path], *, name: str = MAIN, partial: bool = False) -> list[Run]:
    """Read run folders, each certified under certify/<name>; run names are as long as needed to differ.

    A certification that is not complete is refused unless partial is asked for.
    """
    if not paths:
        raise ReportError("a report needs at least one run folder, got none")
    try:
        folders = [records_folder(path, name) for path in paths]
    except ValueError as error:
        raise ReportError(str(error)) from error
    names = _distinct_names(paths)
    return [
        _load_run(path, run_name, folder, partial=partial)
        for path, run_name, folder in zip(paths, names, folders, strict=True)
    ]


def _distinct_names(paths: Sequence[Path]) -> list[str]:
    parts = [path.resolve().parts[1:] for path in paths]
    twice = {part for part in parts if parts.count(part) > 1}
    if twice:
        raise ReportError(f"the run folder {Path('/', *min(twice))} was given more than once")
    length = 1
    while len({part[-length:] for part in parts}) < len(parts):
        length += 1
    return ["-".join(part[-length:]) for part in parts]


def _load_run(path: Path, run_name: str, folder: Path, *, partial: bool) -> Run:
    if not path.is_dir():
        raise ReportError(f"{path} is not a run folder")
    recipe = read_mapping(path / RECIPE, yaml.safe_load)
    about = read_about(path)
    with _fields_of(path / RECIPE):
        # a model that was not trained here states the noise of all its steps, .5 but for the last digits
        method, sigma = str(recipe["method"]), float(f"{float(recipe['sigma']):.12g}")
        seed, kind = int(recipe["seed"]), str(recipe["data"]["kind"])
    merged = _load_records(folder, method, partial=partial)
    records = merged.records
    files = _load_files(folder, records)
    run = Run(
        path=path,
        name=run_name,
        method=method,
        sigma=sigma,
        learned_split=recipe.get("share") == "learned",
        seed=seed,
        kind=kind,
        title=about.title,
        class_names=about.class_names,
        shape=about.shape,
        settings=_settings(records[0], method),
        records=records,
        missing=len(merged.missing),
        files=files,
        stages=folder / STAGES if (folder / STAGES).exists() else None,
        environment=_load_environment(path / ENVIRONMENT),
        recipe=recipe,
        inputs=Inputs(recipe["data"], merged.manifest.images, merged.manifest.order),
        model=merged.manifest.model,
    )
    _check_records(run)
    _check_noise(run)
    _check_size(run)
    return run


def read_about(run: Path) -> About:
    """The benchmark of a run folder, as its benchmark.json describes it."""
    path = run / BENCHMARK
    content = read_mapping(path, json.loads)
    with _fields_of(path):
        channels, height, width = (int(side) for side in content["shape"])
        names = tuple(str(name) for name in content["class_names"])
        moments = [[float(value) for value in content[key]] for key in ("mean", "std") if key in content]
        return About(str(content["title"]), names, (channels, height, width), moments or None)


@contextmanager
def _fields_of(path: Path) -> Iterator[None]:
    """What is missing or wrong among the fields of a file, in one sentence."""
    try:
        yield
    except KeyError as error:
        raise ReportError(f"{path} lacks {error}; {ADVICE}") from error
    except (TypeError, ValueError) as error:
        raise ReportError(f"{path} garbles a field ({error}); {ADVICE}") from error


def read_mapping(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The mapping that a file of a run folder holds; whatever is wrong with it in one sentence."""
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path.parent} has no readable {path.name}; is it the folder of a run?") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ReportError(f"{path} cannot be parsed: {' '.join(str(error).split())}; {ADVICE}") from error
    if not isinstance(content, dict):
        raise ReportError(f"{path} must hold a mapping, got {type(content).__name__}; {ADVICE}")
    return content


def _load_environment(path: Path) -> dict[str, str]:
    """What a run was made with; of one that is missing or unreadable nothing is said."""
    try:
        content = read_mapping(path, json.loads)
    except ReportError:
        return {}
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in content.items()}


def _load_records(folder: Path, method: str, *, partial: bool) -> Merged:
    try:
        merged = read_certification(folder, partial=partial)
    except RecordError as error:
        raise ReportError(str(error)) from error
    _check_agreement(folder, merged.records, method)
    _check_asked(folder, merged)
    return merged


def _load_files(folder: Path, records: Sequence[Record]) -> tuple[str, ...]:
    try:
        files = read_files(folder)
    except RecordError as error:
        raise ReportError(str(error)) from error
    if files and (last := records[-1].certificate.index) >= len(files):
        raise ReportError(f"{folder / FILES} names {len(files)} files and none for image {last}; {ADVICE}")
    return files


def _settings(record: Record, method: str) -> Settings:
    it: Certificate = record.certificate
    sigmas = () if method in INPUT_DEPENDENT else it.sigmas
    return Settings(
        it.schedule, it.alpha, it.norm, it.dim, sigmas, it.seed, it.bound, it.precision, sum(it.select_counts),
        record.subset,
    )  # fmt: skip


def _check_agreement(folder: Path, records: Sequence[Record], method: str) -> None:
    first = _settings(records[0], method)
    for record in records[1:]:
        differing = difference(first, _settings(record, method))
        if differing:
            raise ReportError(f"the records of {folder} differ in {differing}; certify again under another name")


def _check_asked(folder: Path, merged: Merged) -> None:
    """Refuse records that were made otherwise than settings.json beside them says: they belong elsewhere."""
    it, asked = merged.records[0].certificate, merged.manifest.settings
    made = {
        "norm": it.norm, "alpha": it.alpha, "bound": it.bound, "seed": it.seed, "precision": it.precision,
        "mode": it.schedule.mode, "n_estimate": it.schedule.n_max, "n_select": sum(it.select_counts),
    }  # fmt: skip
    for name, value in made.items():
        if name in asked and asked[name] != value:
            raise ReportError(
                f"{folder} holds records with {name}={value}, where its settings.json says {asked[name]}; they belong "
                "to another certification: put its own records there, or certify again under another name"
            )


def difference(one: Settings, other: Settings) -> str:
    """The settings in which two certifications differ, for an error message; empty if they agree.

    >>> from dataclasses import replace
    >>> a = Settings(Schedule("fixed", 100), 0.05, "linf", 12, (0.5,), 0, "cohen", "float32", 100, "all")
    >>> difference(a, a), difference(a, replace(a, alpha=0.001))
    ('', 'alpha (0.05 and 0.001)')
    """
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in (field.name for field in fields(one)))
    return ", ".join(f"{name} ({a} and {b})" for name, a, b in pairs if a != b)


def _check_noise(run: Run) -> None:
    """Refuse records of other noise than the recipe says, which may be an image's own, or of more or fewer looks."""
    noise, looks = run.settings.sigmas, len(run.records[0].certificate.sigmas)
    if looks != STEPS.get(run.method, looks):
        raise ReportError(
            f"{run.path} holds records of {looks} noisy looks at an image, where {run.method} of its recipe has "
            f"{STEPS[run.method]}; they belong to another run: put its own records there"
        )
    if noise and not math.isclose(total := sum(sigma**-2 for sigma in noise) ** -0.5, run.sigma, rel_tol=1e-6):
        raise ReportError(
            f"{run.path} holds records of noise {total:.6g}, where its recipe says {run.sigma:g}; they belong to "
            "another run: put its own records there"
        )


def _check_size(run: Run) -> None:
    if run.settings.dim != math.prod(run.shape):
        raise ReportError(
            f"{run.path} holds records of images with {run.settings.dim} numbers, where its benchmark.json says "
            f"{'x'.join(map(str, run.shape))}; they belong to another run: put its own records there"
        )


def _check_records(run: Run) -> None:
    classes = len(run.class_names)
    for record in run.records:
        it = record.certificate
        if len(it.counts) != classes or not 0 <= record.truth < classes:
            raise ReportError(
                f"benchmark.json of {run.path} names {classes} classes, but image {it.index} has {len(it.counts)} "
                f"counts and true class {record.truth}"
            )
        if it.radii.get(it.bound) != it.radius:
            raise ReportError(f"image {it.index} of {run.path} has radius {it.radius}, but {it.radii} under its bound")
