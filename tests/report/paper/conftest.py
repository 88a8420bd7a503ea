"""A synthetic results folder: every file that a sweep leaves, with votes drawn from a seeded generator."""

import csv
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ars.certification.bounds import class_probabilities
from ars.certification.certificate import Certificate
from ars.certification.settings import Schedule
from ars.report.paper.cells import load_cells
from ars.report.paper.entries import Entry, make_entries
from ars.report.paper.results import make_sheets, write_results
from ars.report.paper.sheet import Sheet, to_csv
from ars.runs.records import Record
from ars.runs.shards import Layout, Manifest
from ars.runs.vote_count import Tally
from ars.theory import rs_radius_linf

COMMITTED = Path(__file__).parents[3] / "results"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SKILL = {"cohen": 1.0, "static_mask": 1.05, "unicr": 0.95, "sukenik": 0.8, "adaptive": 1.35}
DRAWS = 2000


def vote(
    rng: np.random.Generator, index: int, *, method: str, k: int, sigma: float, draws: int, alpha: float
) -> Record:
    """A record of an image: votes of a made-up classifier, radii under both bounds as certify computes them."""
    truth = index // 50 * 7 % 10  # the images are the same for all
    logits = rng.normal(size=10)
    logits[truth] += SKILL[method] * 2.6 / (0.5 + sigma) * rng.gamma(2.0, 0.5)
    chances = np.exp(2 * logits) / np.exp(2 * logits).sum()
    counts, select = rng.multinomial(draws, chances), rng.multinomial(100, chances)
    candidate = int(select.argmax())
    dim = 3 * k * k
    looks = (sigma * 2**0.5,) * 2 if method == "adaptive" else (sigma,)
    radii = {}
    for bound in ("classes", "cohen"):  # the probabilities are those of the last
        lower, upper = class_probabilities(counts.tolist(), candidate, alpha, bound)
        upper_bound = 1 - lower if method == "sukenik" else upper
        radii[bound] = rs_radius_linf(sigma, dim, lower, upper_bound) if lower > upper_bound else 0.0
    certificate = Certificate(
        label=candidate if radii["cohen"] > 0 else None, radius=radii["cohen"], norm="linf", dim=dim,
        candidate=candidate, p_lower=lower, p_upper=upper, bound="cohen", radii=radii, counts=tuple(counts.tolist()),
        select_counts=tuple(select.tolist()), alpha=alpha, sigmas=looks, seed=0, index=index, precision="bfloat16",
        schedule=Schedule("fixed", draws), planned=draws, ended="planned",
    )  # fmt: skip
    return Record(certificate, truth, "test[::50]", 0.13 * (k / 32) ** 2)


def build_cell(
    sweep: Path, *, method: str = "adaptive", k: int = 64, sigma: float = 0.5, seed: int = 0, images: int = 40,
    kind: str = "cifar_backgrounds", title: str | None = None, certified: bool = True, voted: bool = True,
    masks: int = 0, draws: int = DRAWS, training: Mapping[str, object] | None = None,
    alpha: float = 0.05, data: Mapping[str, object] | None = None, seen: Sequence[float] = (),
) -> Path:  # fmt: skip
    """One cell of a sweep, as the sweep's collector writes it."""
    rng = np.random.default_rng([seed, k, int(100 * sigma), *method.encode()])
    path = sweep / f"{method}-k{k}-s{sigma:g}-seed{seed}"
    path.mkdir(parents=True)
    scenes = f"CIFAR-10 on scene backgrounds, k = {k}" if k > 32 else "CIFAR-10"
    recipe = {"method": method, "sigma": sigma, "seed": seed, "data": {"kind": kind, "size": k, **(data or {})}}
    recipe |= {"beta": 2.0} if method == "unicr" else {}  # whose radius is that of Gaussian noise
    (path / "recipe.yaml").write_text(yaml.safe_dump(recipe | dict(training or {})))
    about = {"title": title or scenes, "class_names": CLASSES, "shape": [3, k, k]}
    (path / "benchmark.json").write_text(json.dumps(about))
    (path / "environment.json").write_text(json.dumps({"python": "3.11.2", "torch": "2.13.0", "device": "NVIDIA H200"}))
    (path / "timing.json").write_text(json.dumps({"train_seconds": 620.5 + k, "certify_seconds": 30.0 * k / 32}))
    if certified:
        folder = path / "certify" / "test"
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(Manifest(Layout(images, every=50), {}, "0" * 16, tuple(seen)).to_json())
        how = {"method": method, "k": k, "sigma": sigma, "draws": draws, "alpha": alpha}
        records = [vote(rng, 50 * number, **how) for number in range(images)]
        text = "".join(record.to_json() + "\n" for record in records)
        (folder / "records.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    if voted:
        accuracy = round(float(rng.normal(0.65, 0.01)), 4)
        tally = Tally(10_000, 100, round(10_000 * accuracy), 0, 12.5, "float32", "0" * 16)
        (path / "vote.json").write_text(tally.to_json())
    if masks:
        np.savez(path / "masks.npz", **draw_masks(rng, masks, k))
    return path


def draw_masks(rng: np.random.Generator, n: int, k: int) -> dict[str, np.ndarray]:
    """Bright blobs around boxes of 32x32 along the border."""
    place = rng.integers(0, k - 32 + 1, size=(n, 2))
    rows, columns = np.mgrid[:k, :k]
    centre = place[:, :, None, None] + 15.5
    far = np.hypot(rows - centre[:, 0], columns - centre[:, 1])
    masks = (255 / (1 + np.exp((far - 14) / 3)) * rng.uniform(0.8, 1, size=(n, 1, 1))).astype(np.uint8)
    box = np.concatenate([place, np.full((n, 2), 32)], axis=1)
    return {"masks": masks, "indices": np.arange(n) * 50, "box": box}


def build_results(root: Path) -> Path:
    """Few cells with all that may be there or be missing: two sweeps, two benchmarks, seeds, holes."""
    for k in (32, 64):
        for method in ("cohen", "adaptive"):
            for seed in (0, 1):
                masks = 4 if method == "adaptive" and seed == 0 else 0
                build_cell(root / "fast", method=method, k=k, seed=seed, masks=masks)
    build_cell(root / "fast", method="static_mask", certified=False, masks=4)
    build_cell(root / "fast", method="cohen", k=64, sigma=1.0, voted=False)
    build_cell(root / "paper", method="cohen", images=30)
    build_cell(root / "small", method="adaptive", k=24, sigma=0.75, kind="digits", title="digits on photographs")
    return root


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with its outputs in it; tests that change it take a copy."""
    root = build_results(tmp_path_factory.mktemp("session") / "results")
    write_results(root, root)
    return root


@pytest.fixture
def copied(results: Path, tmp_path: Path) -> Path:
    return shutil.copytree(results, tmp_path / "elsewhere" / "clone")


def entries_of(root: Path) -> list[Entry]:
    return make_entries(load_cells(root))


def sheets_of(root: Path) -> dict[str, Sheet]:
    return {sheet.name: sheet for sheet in make_sheets(entries_of(root))}


def rows_of(sheet: Sheet, **wanted: str) -> list[dict[str, str]]:
    """The rows of a table's CSV with these values."""
    found = csv.DictReader(io.StringIO(to_csv(sheet)))
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def lines_of(cell: Path, name: str = "test") -> list[dict[str, Any]]:
    """The records of a cell as they are on disk."""
    text = gzip.decompress((cell / "certify" / name / "records.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def files_of(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def check_traceable(root: Path, out: Path) -> None:
    """Each table, figure and the page names sources that are there with the digest that the manifest says."""
    manifest = json.loads((out / "manifest.json").read_text())
    made = {name for name in files_of(out) if name.startswith(("tables/", "figures/"))} | {"index.html"}
    assert made == set(manifest["outputs"])
    for name, sources in manifest["outputs"].items():
        assert sources, name
        assert any(source.endswith(("records.jsonl.gz", "masks.npz", "timing.json")) for source in sources), name
    for source, digest in manifest["sources"].items():
        assert hashlib.sha256((root / source).read_bytes()).hexdigest() == digest, source
    assert {source for sources in manifest["outputs"].values() for source in sources} == set(manifest["sources"])


def build_without_torch(root: Path, out: Path) -> None:
    arguments = ["results", str(root), "--out", str(out)]
    code = (  # a None in sys.modules would break SciPy, which looks for torch there
        "import builtins, sys\nreal = builtins.__import__\n"
        "def without(name, *rest, **more):\n    assert name.partition('.')[0] != 'torch'\n"
        "    return real(name, *rest, **more)\nbuiltins.__import__ = without\n"
        f"from ars.cli.main import main\nsys.exit(main({arguments}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
