"""The one reader of a run folder: recipe, benchmark, settings and records in one frozen object; loads no torch."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ars.atomic import write_whole
from ars.certification.bounds import BOUNDS, Bound
from ars.certification.certificate import Certificate
from ars.certification.settings import Schedule
from ars.data.settings import PLACES, with_later
from ars.methods.registry import methods
from ars.names import shown_name, shown_values
from ars.runs.paths import BENCHMARK, ENVIRONMENT, FILES, MAIN, RECIPE, STAGES, TIMING, records_folder
from ars.runs.radius_check import check_radii
from ars.runs.records import Record, ReportError
from ars.runs.shards import Merged, read_certification
from ars.runs.test_images import ImageStats, Judged, difference, read_files
from ars.theory import Norm
from ars.untrusted import parse_json, parse_yaml, read_text

Item = TypeVar("Item")

NOT_OF_TEST = {"passes", "padding", "workers", "augment"}
"""Data keys that change no test input."""
SEEN = {*PLACES, "skip_unreadable"}
"""Data keys that may differ between runs if both recorded statistics of their images, which would show the effect."""


@dataclass(frozen=True)
class Inputs:
    """What determines the test inputs: the recipe's data, and the manifest's image statistics (empty in old ones)."""

    data: Mapping[str, Any]
    images: ImageStats = ()
    order: str = ""

    def same(self, other: "Inputs") -> bool:
        """Whether no difference is known; keys that only one recipe has are ignored, as of a later version."""
        seen = bool(self.images and other.images)
        mine, theirs = ({"seed": 0, **with_later(inputs.data)} for inputs in (self, other))
        keys = (mine.keys() & theirs.keys()) - NOT_OF_TEST - (SEEN if seen else set())
        if self.order != other.order:
            return False
        return all(mine[key] == theirs[key] for key in keys) and difference(self.images, other.images) is None


def alike(items: Iterable[Item], same: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Items in groups in which any two are the same, the largest group first.

    >>> alike("aBbAa", lambda one, other: one.lower() == other.lower())
    [['a', 'A', 'a'], ['B', 'b']]
    """
    groups: list[list[Item]] = []
    for item in items:
        found = next((group for group in groups if all(same(item, other) for other in group)), None)
        groups.append([item]) if found is None else found.append(item)
    return sorted(groups, key=len, reverse=True)


ADVICE = "restore a copy of the file that the run has written"


@dataclass(frozen=True)
class Settings:
    """How a run was certified; the same for all its records."""

    schedule: Schedule
    alpha: float
    norm: Norm
    dim: int
    sigmas: tuple[float, ...]
    """Empty if each image has its own."""
    seed: int
    bound: Bound
    precision: str
    n_select: int
    subset: str
    exact: bool = False


@dataclass(frozen=True)
class About:
    """What a run folder stores about its benchmark; a trained run also has each channel's mean and deviation."""

    title: str
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    moments: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Run:
    """One trained and certified model: its recipe, its benchmark and its records in the order of index.

    missing counts the images without a record, which only a partial report allows.
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
    """For the user's own folder, the file of each test image by its index."""
    stages: Path | None
    environment: dict[str, str]
    recipe: dict[str, Any]
    inputs: Inputs
    model: str
    """The digest of the model in the manifest."""

    def same_images(self, other: "Run") -> bool:
        """Whether both runs were certified on the same test images, as far as recipes and records show."""
        mine, theirs = ([(record.certificate.index, record.truth) for record in run.records] for run in (self, other))
        return self.settings.subset == other.settings.subset and mine == theirs and self.inputs.same(other.inputs)

    @property
    def judged(self) -> Judged:
        """How much of the test set has records."""
        truths = (record.truth for record in self.records)
        total = int(self.inputs.images[0]) if self.inputs.images else None
        return Judged.of(truths, of_images=total, of_classes=len(self.class_names))

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """The run's chosen bound, then every other bound for which all records have a radius."""
        chosen = self.settings.bound
        others = (bound for bound in BOUNDS if bound != chosen)
        return chosen, *(bound for bound in others if all(bound in record.certificate.radii for record in self.records))


def load_runs(paths: Sequence[Path], *, name: str = MAIN, partial: bool = False) -> list[Run]:
    """Read run folders, each certified under certify/<name>; run names are long enough to be distinct.

    An incomplete certification is refused unless partial is true.
    """
    if not paths:
        raise ReportError("a report needs at least one run folder, got none")
    try:
        folders = [records_folder(path, name) for path in paths]
    except ValueError as error:
        raise ReportError(str(error)) from error
    every = zip(paths, _distinct_names(paths), folders, strict=True)
    return [_load_run(path, run_name, folder, partial=partial) for path, run_name, folder in every]


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
    recipe = read_mapping(path / RECIPE, parse_yaml)
    about = read_about(path)
    with _fields_of(path / RECIPE):
        # for an imported model sigma is the combined noise of all steps, with rounding errors in the last digits
        method, sigma = str(recipe["method"]), float(f"{float(recipe['sigma']):.12g}")
        seed, kind = int(recipe["seed"]), str(recipe["data"]["kind"])
    merged = read_certification(folder, partial=partial)
    _check_agreement(folder, merged, method)
    records = merged.records
    files = read_files(folder)
    if files and (last := records[-1].certificate.index) >= len(files):
        raise ReportError(f"{folder / FILES} names {len(files)} files, but none for image {last}; {ADVICE}")
    run = Run(
        path=path,
        name=shown_name(run_name),
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
        files=tuple(map(shown_name, files)),
        stages=folder / STAGES if (folder / STAGES).exists() else None,
        environment=_load_environment(path / ENVIRONMENT),
        recipe=recipe,
        inputs=Inputs(recipe["data"], merged.manifest.images, merged.manifest.order),
        model=merged.manifest.model,
    )
    _check_fit(run)
    return run


def read_about(run: Path) -> About:
    """The benchmark of a run folder, as its benchmark.json describes it."""
    path = run / BENCHMARK
    content = read_mapping(path, parse_json)
    with _fields_of(path):
        channels, height, width = (int(side) for side in content["shape"])
        names = tuple(str(name) for name in content["class_names"])
        moments = [[float(value) for value in content[key]] for key in ("mean", "std") if key in content]
        return About(str(content["title"]), names, (channels, height, width), moments or None)


@contextmanager
def _fields_of(path: Path) -> Iterator[None]:
    """Report missing or invalid fields of a file in one sentence."""
    try:
        yield
    except KeyError as error:
        raise ReportError(f"{path} lacks {error}; {ADVICE}") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ReportError(f"{path} has an invalid field ({error}); {ADVICE}") from error


def read_mapping(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The mapping in a file of a run folder, its texts as they are shown; any error is reported in one sentence."""
    try:
        content = shown_values(parse(read_text(path)))
    except OSError as error:
        raise ReportError(f"{path.parent} has no readable {path.name}; name the folder of a run") from error
    except ValueError as error:
        raise ReportError(f"{path} cannot be parsed: {error}; {ADVICE}") from error
    if not isinstance(content, dict):
        raise ReportError(f"{path} must hold a mapping, got {type(content).__name__}; {ADVICE}")
    return content


def _load_environment(path: Path) -> dict[str, str]:
    """The environment of a run; empty if the file is missing or unreadable."""
    try:
        content = read_mapping(path, parse_json)
    except ReportError:
        return {}
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in content.items()}


def _settings(record: Record, method: str) -> Settings:
    made: Certificate = record.certificate
    registered = methods().get(method)
    sigmas = () if registered and registered.input_dependent else made.sigmas
    return Settings(
        made.schedule, made.alpha, made.norm, made.dim, sigmas, made.seed, made.bound, made.precision,
        sum(made.select_counts), record.subset, made.exact,
    )  # fmt: skip


def _check_agreement(folder: Path, merged: Merged, method: str) -> None:
    """Refuse records that differ, or that contradict the settings.json beside them: they belong elsewhere."""
    first, made = _settings(merged.records[0], method), merged.records[0].certificate
    for record in merged.records[1:]:
        if differing := settings_difference(first, _settings(record, method)):
            raise ReportError(f"the records of {folder} differ in {differing}; certify again under another name")
    asked = merged.manifest.settings
    settings = {
        "norm": made.norm, "alpha": made.alpha, "bound": made.bound, "seed": made.seed, "precision": made.precision,
        "mode": made.schedule.mode, "n_estimate": made.schedule.n_max, "n_select": sum(made.select_counts),
    }  # fmt: skip
    if made.exact != asked.get("exact", False):
        raise ReportError(
            f"{folder} holds records with exact={made.exact}, but its settings.json says otherwise; restore its own "
            "records, or certify again under another name"
        )
    for name, value in settings.items():
        if name in asked and asked[name] != value:
            raise ReportError(
                f"{folder} holds records with {name}={value}, but its settings.json says {asked[name]}; they belong "
                "to another certification: restore its own records, or certify again under another name"
            )


def settings_difference(one: Settings, other: Settings) -> str:
    """The settings in which two certifications differ, in words; empty if they agree.

    >>> from dataclasses import replace
    >>> a = Settings(Schedule("fixed", 100), 0.05, "linf", 12, (0.5,), 0, "cohen", "float32", 100, "all")
    >>> settings_difference(a, a), settings_difference(a, replace(a, alpha=0.001))
    ('', 'alpha (0.05 and 0.001)')
    """
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in (field.name for field in fields(one)))
    return ", ".join(f"{name} ({a} and {b})" for name, a, b in pairs if a != b)


def _check_fit(run: Run) -> None:
    """Refuse records that contradict the recipe or the benchmark beside them, or themselves."""
    advice = "they belong to another run: restore its own records"
    noise, looks = run.settings.sigmas, len(run.records[0].certificate.sigmas)
    method, classes = methods().get(run.method), len(run.class_names)
    if method and looks != method.looks:
        raise ReportError(
            f"{run.path} holds records with {looks} noisy looks per image, but {run.method} in its recipe has "
            f"{method.looks}; {advice}"
        )
    if noise and not math.isclose(total := sum(sigma**-2 for sigma in noise) ** -0.5, run.sigma, rel_tol=1e-6):
        raise ReportError(
            f"{run.path} holds records with noise {total:.6g}, but its recipe says {run.sigma:g}; {advice}"
        )
    if run.settings.dim != math.prod(run.shape):
        raise ReportError(
            f"{run.path} holds records of images with {run.settings.dim} numbers, but its benchmark.json says "
            f"{'x'.join(map(str, run.shape))}; {advice}"
        )
    for record in run.records:
        made = record.certificate
        if len(made.counts) != classes or not 0 <= record.truth < classes:
            raise ReportError(
                f"benchmark.json of {run.path} names {classes} classes, but image {made.index} has {len(made.counts)} "
                f"counts and true class {record.truth}"
            )
        if made.radii.get(made.bound) != made.radius:
            raise ReportError(
                f"image {made.index} of {run.path} has radius {made.radius}, but {made.radii} under its bound"
            )
    check_radii(run.path, run.recipe, run.shape, run.records)


def write_train_seconds(folder: Path, seconds: float) -> None:
    """Record the seconds of a training."""
    write_whole(folder / TIMING, json.dumps({"train_seconds": round(seconds, 1)}))


def train_seconds(folder: Path) -> float | None:
    """The seconds that the training of a run took; None if an earlier version did not record them."""
    path = folder / TIMING
    if not path.exists():
        return None
    try:
        return float(parse_json(read_text(path))["train_seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged; remove it, and the training time is unknown") from error
