"""Synthetic run folders: records with the radii that a test asks for, and stages drawn from noise."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ars.certification.bounds import BOUNDS, class_probabilities
from ars.certification.certificate import Certificate
from ars.certification.martingale import levels_of
from ars.certification.settings import Schedule
from ars.runs.records import Record
from ars.runs.shards import Layout, Manifest
from ars.theory import Ball, TradeOff, ars_radius_l2, ars_radius_linf, certified_radius, compose
from ars.theory.exact import exact_gaussian, exact_masked

CLASSES = ("zero", "one", "two")
SHAPE = (3, 6, 6)

MakeRecord = Callable[..., Record]
MakeRun = Callable[..., Path]


DRAWS = 10**7
"""So many that any radius is met closely by some number of votes."""


def radius_of(
    sigmas: Sequence[float], norm: str, dim: int, lower: float, upper: float, *, exact: bool = False
) -> float:
    """The radius of Gaussian looks, of which the second is masked."""
    if lower <= upper:
        return 0.0
    if not exact:
        return ars_radius_l2(sigmas, lower, upper) if norm == "l2" else ars_radius_linf(sigmas, dim, lower, upper)
    steps = [(exact_masked if number else exact_gaussian) for number in range(len(sigmas))]

    def guarantee(ball: Ball) -> TradeOff:
        return compose(*(step(sigma, ball) for step, sigma in zip(steps, sigmas, strict=True)))

    return certified_radius(guarantee, lower, upper, norm=norm, dim=dim)


def with_true_radii(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a certificate with the probabilities and radii of its votes."""
    names, (candidate, alpha) = ("sigmas", "norm", "dim"), (fields["candidate"], fields["alpha"])
    bounds = {bound: class_probabilities(fields["counts"], candidate, alpha, bound) for bound in BOUNDS}
    looks, exact = [fields[name] for name in names], fields.get("exact", False)
    radii = {bound: radius_of(*looks, *found, exact=exact) for bound, found in bounds.items()}
    (lower, upper), radius = bounds[fields["bound"]], radii[fields["bound"]]
    label = candidate if radius > 0 else None
    return {**fields, "label": label, "radius": radius, "radii": radii, "p_lower": lower, "p_upper": upper}


def votes_for(radius: float, classes_radius: float | None, fields: Mapping[str, Any]) -> tuple[int, ...]:
    """Votes of DRAWS whose radius under Cohen et al.'s bound, and under class bounds, is just above those given."""
    candidate = fields["candidate"]
    rivals = [label for label in range(len(CLASSES)) if label != candidate]

    def radii(hits: int, rival: int) -> dict[str, float]:
        counts = {candidate: hits, rivals[0]: rival, rivals[1]: DRAWS - hits - rival}
        return with_true_radii({**fields, "exact": False, "counts": [counts[label] for label in sorted(counts)]})[
            "radii"
        ]

    if radius == 0:
        hits = DRAWS * 45 // 100 if classes_radius else DRAWS * 3 // 10
    else:
        hits = 1 + bisect(lambda tried: radii(tried, (DRAWS - tried) // 2)["cohen"] < radius, DRAWS // 2, DRAWS - 10)
    wanted = radius if classes_radius is None else classes_radius
    rival = bisect(lambda tried: radii(hits, tried)["classes"] >= wanted, (DRAWS - hits + 1) // 2, DRAWS - hits)
    counts = {candidate: hits, rivals[0]: rival if wanted else DRAWS * 4 // 10}
    counts[rivals[1]] = DRAWS - sum(counts.values())
    return tuple(counts[label] for label in sorted(counts))


def bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number at which a condition that ends somewhere still holds."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def build_record(
    index: int, truth: int, candidate: int, radius: float, /, *, classes_radius: float | None = None, **changes: Any
) -> Record:
    """A record with votes of this radius, or of the next larger one; radius 0 is an abstention.

    Changes replace fields as they are, also with values that do not follow from the votes.
    """
    own = {name: changes.pop(name) for name in ("subset", "seconds") if name in changes}
    fields: dict[str, Any] = {
        "norm": "linf", "dim": math.prod(SHAPE), "candidate": candidate, "bound": "cohen",
        "select_counts": tuple(98 if label == candidate else 1 for label in range(len(CLASSES))), "alpha": 0.05,
        "sigmas": (0.5,), "seed": 7, "index": index, "precision": "float32", "schedule": Schedule("fixed", DRAWS),
        "planned": DRAWS, "ended": "planned",
    }  # fmt: skip
    said = {**fields, **{name: value for name, value in changes.items() if name in (*fields, "exact")}}
    made = with_true_radii({**said, "counts": votes_for(radius, classes_radius, said)})
    return Record(Certificate(**{**made, **changes}), truth, own.get("subset", "test"), own.get("seconds", 0.5))


GRID = (0.0, 2 / 255, 4 / 255)


def build_decided(index: int, truth: int, candidate: int, certified: int, /, *, grid: Sequence[float] = GRID) -> Record:
    """A record of curve mode that certifies so many radii of a grid, at the probabilities that they need."""
    record = build_record(index, truth, candidate, 0.0)
    made, schedule = record.certificate, Schedule("curve", 10_000, tuple(grid))
    levels = levels_of(lambda p: radius_of(made.sigmas, made.norm, made.dim, p, 1 - p), grid)
    level, radius = (levels[certified - 1], grid[certified - 1]) if certified else (0.0, 0.0)
    counts = tuple(8900 if label == candidate else 50 for label in range(len(CLASSES)))
    changed = replace(
        made, label=candidate if certified else None, radius=radius, radii={"cohen": radius}, p_lower=level,
        p_upper=1 - level, counts=counts, schedule=schedule, planned=10_000, ended="given up",
    )  # fmt: skip
    return replace(record, certificate=changed)


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
    recipe |= {"beta": 2.0} if method == "unicr" else {}  # whose radius is that of Gaussian noise
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
    made = record.certificate
    if len(made.sigmas) > 1:
        return record
    halves = {**vars(made), "sigmas": (made.sigmas[0] * 2**0.5,) * 2}
    return replace(record, certificate=Certificate(**(with_true_radii(halves) if made.exact else halves)))


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
