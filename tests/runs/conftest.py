"""Synthetic run folders: records with the radii that a test asks for, and stages drawn from noise."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ars.certification.certificate import Certificate
from ars.certification.settings import Schedule
from ars.runs.records import Record
from ars.runs.shards import Layout, Manifest

CLASSES = ("zero", "one", "two")
SHAPE = (3, 6, 6)

MakeRecord = Callable[..., Record]
MakeRun = Callable[..., Path]


def build_record(
    index: int, truth: int, candidate: int, radius: float, /, *, classes_radius: float | None = None, **changes: Any
) -> Record:
    """A record whose certificate has this radius under Cohen et al.'s bound; radius 0 is an abstention."""
    own = {name: changes.pop(name) for name in ("subset", "seconds") if name in changes}
    radii = {"cohen": radius, "classes": radius if classes_radius is None else classes_radius}
    bound = changes.get("bound", "cohen")
    counts = [1, 1, 1]
    counts[candidate] = 98
    fields: dict[str, Any] = {
        "label": candidate if radii[bound] > 0 else None, "radius": radii[bound], "norm": "linf", "dim": 108,
        "candidate": candidate, "p_lower": 0.9, "p_upper": 0.1, "bound": bound, "radii": radii,
        "counts": tuple(counts), "select_counts": tuple(counts), "alpha": 0.05, "sigmas": (0.5,), "seed": 7,
        "index": index, "precision": "float32", "schedule": Schedule("fixed", 100), "planned": 100, "ended": "planned",
    }  # fmt: skip
    certificate = Certificate(**{**fields, **changes})
    return Record(certificate, truth, own.get("subset", "test"), own.get("seconds", 0.5))


GRID = (0.0, 2 / 255, 4 / 255)


def build_decided(index: int, truth: int, candidate: int, certified: int, /, *, grid: Sequence[float] = GRID) -> Record:
    """A record of curve mode that certifies so many radii of a grid."""
    radius = grid[certified - 1] if certified else 0.0
    return build_record(
        index, truth, candidate, radius, label=candidate if certified else None, radii={"cohen": radius},
        schedule=Schedule("curve", 10_000, tuple(grid)), planned=10_000, ended="given up",
    )  # fmt: skip


def build_records(**changes: Any) -> list[Record]:
    """Four images: right at 4/255, right at 2/255 and a bit, wrong at 8/255, and an abstention."""
    return [
        build_record(0, 0, 0, 4.5 / 255, **changes),
        build_record(1, 1, 1, 2.5 / 255, **changes),
        build_record(2, 2, 0, 8.5 / 255, **changes),
        build_record(3, 0, 0, 0.0, classes_radius=1.5 / 255, **changes),
    ]


def build_run(
    path: Path,
    *,
    method: str = "cohen",
    sigma: float = 0.5,
    seed: int = 0,
    kind: str = "digits",
    title: str = "digits on photographs",
    shards: Sequence[Sequence[Record]] | None = None,
    examples: int | None = None,
    name: str = "test",
    stages: int = 0,
    environment: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    seen: Sequence[float] = (),
    given: str = "",
) -> Path:
    """A run folder on disk; with more examples than records, one that is not complete.

    given is the digest of a model that was not trained here.
    """
    folder = path / "certify" / name
    folder.mkdir(parents=True)
    recipe = {"method": method, "sigma": sigma, "seed": seed, "train": dict(train or {})}
    recipe["data"] = {"kind": kind, **(data or {})}
    recipe |= {"model": method} if given else {}
    (path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (path / "benchmark.json").write_text(json.dumps({"title": title, "class_names": CLASSES, "shape": SHAPE}))
    shards = [build_records(sigmas=(sigma,))] if shards is None else shards
    if shards:
        size = max(1, *map(len, shards))
        layout = Layout(examples or max(1, sum(map(len, shards))), shard_size=size)
        (folder / "settings.json").write_text(Manifest(layout, {}, given or "model", tuple(seen)).to_json())
    for number, shard in enumerate(shards):
        lines = (one.to_json() + "\n" for one in (two_looks(one) if method == "adaptive" else one for one in shard))
        (folder / f"shard-{number:05d}.jsonl").write_text("".join(lines))
    if stages:
        np.savez(folder / "stages.npz", **build_stages(stages))
    if environment is not None:
        (path / "environment.json").write_text(json.dumps(environment))
    return path


def two_looks(record: Record) -> Record:
    """The record with its noise budget in two equal parts, where it has one."""
    sigmas = record.certificate.sigmas
    halves = sigmas if len(sigmas) > 1 else (sigmas[0] * 2**0.5,) * 2
    return replace(record, certificate=replace(record.certificate, sigmas=halves))


def build_stages(n: int) -> dict[str, np.ndarray]:
    """Two steps, the second masked, as the certification saves them."""
    rng = np.random.default_rng(0)
    images = rng.random((n, *SHAPE), dtype=np.float32)
    weight = rng.random((n, 1, *SHAPE[1:]), dtype=np.float32)
    first, second = (rng.normal(size=images.shape).astype(np.float32) for _ in range(2))
    return {
        "index": np.arange(n), "truth": np.arange(n) % 3, "input": images, "average": images + first / 2,
        "value_1": images + first, "weight_1": np.ones_like(weight), "masked_1": images,
        "value_2": weight * images + second, "weight_2": weight, "masked_2": weight * images,
    }  # fmt: skip


@pytest.fixture
def make_record() -> MakeRecord:
    return build_record


@pytest.fixture
def make_decided() -> MakeRecord:
    return build_decided


@pytest.fixture
def make_records() -> Callable[[], list[Record]]:
    return build_records


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Build a run in a folder below tmp_path."""
    return lambda folder, **options: build_run(tmp_path / folder, **options)
