"""Whatever bytes a file has: its reader returns, or refuses them in one sentence that names the file.

ARS_FUZZ=100000 sets the inputs per reader; without it there are few, the same in every run.
"""

import gzip
import io
import json
import os
import resource
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save

from ars.cli.errors import describe_error
from ars.data.backgrounds import checksum_path, read_pack, sha256_of
from ars.data.folder import folder as open_folder
from ars.data.image_files import decode
from ars.recipes.read import imported_model, read_recipe
from ars.report.grouping import make_sections
from ars.report.paper.cells import load_cells
from ars.report.paper.entries import make_entries
from ars.report.paper.masks import load_masks
from ars.report.paper.results import make_sheets, read_outputs
from ars.report.paper.sheet import to_csv
from ars.report.pipeline_figure import load_stages
from ars.report.rendering import images_csv, to_json, to_markdown
from ars.report.table import make_table
from ars.report.writing import remove_listed
from ars.runs.attacks import read_attacks
from ars.runs.provenance import begun_settings
from ars.runs.records import Record, read_records
from ars.runs.run import load_runs, train_seconds
from ars.runs.shards import read_certification, read_manifest
from ars.runs.test_images import read_files
from ars.runs.vote_count import read_tally
from ars.tensors import load_tensors, read_header
from ars.workflows.sweeps.file import read_sweep

from .mutations import (
    Change,
    changed_bytes,
    changed_gzip,
    changed_json,
    changed_lines,
    changed_png,
    changed_tensors,
    changed_yaml,
    changed_zip,
    one_of,
)

FUZZ = int(os.environ.get("ARS_FUZZ", "0"))
INPUTS = FUZZ or 50
AT_ONCE = 25_000
"""Inputs of one search, which keeps all that it has tried in memory."""
MOST_SECONDS, MOST_GROWTH = 10.0, 2 * 2**30
"""Of processor time per input, and of memory over all inputs of a reader: far above what is needed."""

RUN = Path(__file__).parents[2] / "results/digits/cohen-s0.75-seed0"
IMAGES = 3


@dataclass(frozen=True)
class Reader:
    """How its file is changed, and what reads it; the file's name must be in every refusal."""

    change: Change
    read: Callable[[bytes], object]
    named: str


def small_run(folder: Path) -> Path:
    """A committed run with its first records alone, and with every other file that a run may have."""
    certify = folder / "certify/test"
    certify.mkdir(parents=True)
    for name in ("benchmark.json", "environment.json", "timing.json", "vote.json"):
        shutil.copy(RUN / name, folder)
    keys = yaml.safe_load((RUN / "recipe.yaml").read_text())
    few = ("method", "sigma", "seed", "data", "certify")
    (folder / "recipe.yaml").write_text(yaml.safe_dump({key: keys[key] for key in few}))
    lines = gzip.decompress((RUN / "certify/test/records.jsonl.gz").read_bytes()).decode().splitlines()[:IMAGES]
    (certify / "shard-00000.jsonl").write_text("".join(line + "\n" for line in lines))
    manifest = json.loads((RUN / "certify/test/settings.json").read_text())
    manifest["layout"] |= {"examples": IMAGES, "shard_size": 10}
    (certify / "settings.json").write_text(json.dumps(manifest))
    (certify / "files.json").write_text(json.dumps([f"{number}.png" for number in range(IMAGES)]))
    about = json.loads((folder / "benchmark.json").read_text())
    pixels = np.full((1, *about["shape"]), 0.5, dtype=np.float32)
    np.savez(certify / "stages.npz", index=np.arange(1), truth=np.arange(1), input=pixels, average=pixels,
             value_1=pixels, weight_1=np.ones_like(pixels), masked_1=pixels)  # fmt: skip
    masks = np.full((1, *about["shape"][1:]), 255, dtype=np.uint8)
    np.savez(folder / "masks.npz", masks=masks, indices=np.arange(1), largest=np.ones(1, dtype=np.float32))
    image = {"target": {"index": 0, "truth": 0, "label": 0, "radius": 0.01}, "attempts": [
        {"kind": "gradient", "times": times, "challenger": 1, "counts": [9, 1], "p_value": 1.0} for times in (0.5, 2.0)
    ]}  # fmt: skip
    attacks = {"settings": {"times": [0.5, 2.0]}, "model": "m", "records": "r", "total": 1, "seconds": 1.0,
               "images": [image]}  # fmt: skip
    (folder / "attack").mkdir()
    (folder / "attack/test.json").write_text(json.dumps(attacks))
    return folder


def packed_results(folder: Path) -> Path:
    """A folder of packed results with one cell."""
    cell = small_run(folder / "sweep/cell")
    shard = cell / "certify/test/shard-00000.jsonl"
    (cell / "certify/test/records.jsonl.gz").write_bytes(gzip.compress(shard.read_bytes()))
    shard.unlink()
    (cell.parent / "sweep.yaml").write_text("recipe: digits.yaml\nrecipe_name: digits\nrecipe_note: few epochs\n")
    return folder


def picture(kind: str, mode: str = "RGB") -> bytes:
    pixels = np.arange(12 * 8 * 4, dtype=np.uint8).reshape(8, 12, 4)
    made = Image.fromarray(pixels, "RGBA").convert(mode)
    if mode == "I;16":
        made = Image.fromarray((np.arange(96, dtype=np.uint16) * 600).reshape(8, 12))
    out = io.BytesIO()
    made.save(out, format=kind)
    return out.getvalue()


def put(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
    """What writes a content to a file, then reads."""

    def reader(content: bytes) -> object:
        path.write_bytes(content)
        return read()

    return reader


def in_run(name: str) -> Callable[[Path], Reader]:
    """The table of a run folder in which one file is changed."""

    def make(folder: Path) -> Reader:
        run = small_run(folder / "run")
        text = (run / name).read_text()
        changed = changed_yaml if name.endswith("yaml") else changed_lines if name.endswith("jsonl") else changed_json

        def read() -> object:
            runs = load_runs([run], partial=True)
            table = make_table(make_sections(runs))
            return to_markdown(table), to_json(table), images_csv(runs[0])

        return Reader(changed(text), put(run / name, read), str(folder))

    return make


def in_results(name: str) -> Callable[[Path], Reader]:
    """The tables of packed results in which one file is changed."""

    def make(folder: Path) -> Reader:
        root = packed_results(folder / "results")
        path = root / "sweep" / name
        changed = changed_yaml if name.endswith("yaml") else changed_json

        def read() -> object:
            return [to_csv(sheet) for sheet in make_sheets(make_entries(load_cells(root)))]

        return Reader(changed(path.read_text()), put(path, read), str(folder))

    return make


def records_packed(folder: Path) -> Reader:
    certify = packed_results(folder / "results") / "sweep/cell/certify/test"
    inner = gzip.decompress((certify / "records.jsonl.gz").read_bytes())
    contents = changed_gzip(inner, changed_lines(inner.decode()))
    read = put(certify / "records.jsonl.gz", lambda: read_certification(certify, partial=True))
    return Reader(contents, read, "records.jsonl.gz")


def record(folder: Path) -> Reader:
    line = (small_run(folder / "run") / "certify/test/shard-00000.jsonl").read_text().splitlines()[0]
    return Reader(changed_json(line), lambda content: Record.from_json(content.decode(errors="replace")), "")


def shard(folder: Path) -> Reader:
    path = small_run(folder / "run") / "certify/test/shard-00000.jsonl"
    return Reader(changed_lines(path.read_text()), put(path, lambda: read_records(path)), path.name)


def manifest(folder: Path) -> Reader:
    run = small_run(folder / "run")
    path = run / "certify/test/settings.json"

    def read() -> object:
        return read_manifest(path.parent), begun_settings(run, "test")

    return Reader(changed_json(path.read_text()), put(path, read), path.name)


def recipe(folder: Path) -> Reader:
    path = folder / "recipe.yaml"
    text = (RUN / "recipe.yaml").read_text().replace("null", "~")
    short = yaml.safe_dump({**yaml.safe_load(text), "mask": {"width": 8}, "train": {"epochs": 7, "ema": 0.5}})
    return Reader(changed_yaml(short), put(path, lambda: (imported_model(path), read_recipe(path))), path.name)


def overrides(folder: Path) -> Reader:
    """One option of the command line that overrides a recipe."""
    change = one_of(changed_bytes(b"train.epochs=[1, {a: 2}]"), changed_bytes(b"data.kind=digits"))
    return Reader(change, lambda content: read_recipe(None, [content.decode(errors="replace")]), "")


def sweep(folder: Path) -> Reader:
    (folder / "base.yaml").write_text("method: cohen\nsigma: 0.5\n")
    path = folder / "sweep.yaml"
    text = (
        "recipe: base.yaml\nrecipe_name: digits\noverride: {unicr: {beta: 2.25}}\ngroups:\n"
        "- {methods: [cohen], sigma: [0.75], seeds: [0], override: {train.epochs: 3}, vote: 9, label: a}\n"
        "rough: [{methods: [cohen], k: 32, epoch: 4, image: 0.13, vote: 3}]\n"
    )
    return Reader(changed_yaml(text), put(path, lambda: read_sweep(path)), path.name)


def attacks(folder: Path) -> Reader:
    run = small_run(folder / "run")
    path = run / "attack/test.json"

    def read() -> object:
        found = read_attacks(run, "test")
        return found and (found.to_json(), found.complete, [image.lost_at for image in found.images])

    return Reader(changed_json(path.read_text()), put(path, read), path.name)


def votes(folder: Path) -> Reader:
    run = small_run(folder / "run")
    return Reader(changed_json((run / "vote.json").read_text()), put(run / "vote.json", lambda: read_tally(run)), "")


def seconds(folder: Path) -> Reader:
    run = small_run(folder / "run")
    path = run / "timing.json"
    return Reader(changed_json(path.read_text()), put(path, lambda: train_seconds(run)), path.name)


def files(folder: Path) -> Reader:
    path = small_run(folder / "run") / "certify/test/files.json"
    return Reader(changed_json(path.read_text()), put(path, lambda: read_files(path.parent)), path.name)


def lists(folder: Path) -> Reader:
    """The lists of an earlier report's files, by which the next one removes them."""
    (folder / "kept").write_text("kept")
    listed = {"made_by": "ars report", "files": {"a.svg": "0" * 64}, "outputs": {"tables/a.md": ["b"]}}

    def read(content: bytes) -> object:
        (folder / "report-files.json").write_bytes(content)
        (folder / "manifest.json").write_bytes(content)
        remove_listed(folder, written=())
        assert (folder / "kept").exists()
        return read_outputs(folder)

    return Reader(changed_json(json.dumps(listed)), read, "")


def weights(folder: Path) -> Reader:
    path = folder / "model.safetensors"
    content = save({"a": torch.ones(2, 3), "b": torch.zeros(1, dtype=torch.bfloat16)}, {"about": '{"epoch": 1}'})
    return Reader(changed_tensors(content), put(path, lambda: (load_tensors(path), read_header(path))), path.name)


def pack(folder: Path) -> Reader:
    path = folder / "pack.safetensors"
    content = save({"train": torch.ones(2, 3, 4, 4, dtype=torch.uint8)}, {"about": '{"side": 4}'})

    def read() -> object:
        checksum_path(path).write_text(f"{sha256_of(path)}  {path.name}\n")
        return read_pack(path)

    return Reader(changed_tensors(content), put(path, read), path.name)


def image(kind: str, mode: str = "RGB") -> Callable[[Path], Reader]:
    def make(folder: Path) -> Reader:
        content = picture(kind, mode)
        changed = changed_png if kind == "PNG" else changed_bytes
        return Reader(changed(content), lambda data: decode(data, "photo"), "photo")

    return make


NAMES = [
    "../a.png",
    "/a.png",
    "cat/../../a.png",
    "cat/\x1b[31m.png",
    "cat\\a.png",
    "cat/",
    "a",
    "cat/a" * 300,
    "a\x00.png",
]


def classes(folder: Path) -> Reader:
    """A zip of class folders, opened as test images."""
    path = folder / "photos.zip"
    parts = {f"test/{name}/{number}.png": picture("PNG") for name in ("cat", "dog") for number in range(2)}

    def read() -> object:
        benchmark = open_folder(root=str(path), size=8, workers=0)
        return benchmark.examples("test", range(benchmark.size("test")))

    return Reader(changed_zip(parts, NAMES, changed_png), put(path, read), "photos")


def arrays(name: str) -> Callable[[Path], Reader]:
    """Stages or masks: a zip of arrays."""

    def make(folder: Path) -> Reader:
        cell_folder = packed_results(folder / "results") / "sweep/cell"
        path = next(cell_folder.rglob(name))
        [cell] = load_cells(folder / "results")
        with np.load(path) as loaded:
            parts = {f"{key}.npy": saved(loaded[key]) for key in loaded.files}

        def read() -> object:
            return load_masks(cell) if name == "masks.npz" else load_stages(cell.runs["test"])

        return Reader(changed_zip(parts, [*NAMES, "extra.npy"], changed_bytes), put(path, read), name)

    return make


def saved(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


READERS: dict[str, Callable[[Path], Reader]] = {
    "record": record, "shard": shard, "records.jsonl.gz": records_packed, "settings.json": manifest,
    "recipe.yaml": recipe, "overrides": overrides, "sweep.yaml": sweep, "attack": attacks, "vote.json": votes,
    "timing.json": seconds, "files.json": files, "lists of a report": lists, "weights": weights, "backgrounds": pack,
    "zip of images": classes, "stages.npz": arrays("stages.npz"), "masks.npz": arrays("masks.npz"),
    **{f"image {kind} {mode}": image(kind, mode) for kind, mode in (
        ("PNG", "RGB"), ("PNG", "I;16"), ("PNG", "P"), ("PNG", "LA"), ("JPEG", "RGB"), ("JPEG", "CMYK"),
        ("GIF", "P"), ("BMP", "RGB"), ("TIFF", "RGB"), ("TIFF", "I;16"), ("WEBP", "RGBA"), ("PPM", "RGB"),
    )},
    **{f"report with {name}": in_run(name) for name in (
        "recipe.yaml", "benchmark.json", "environment.json", "certify/test/settings.json", "certify/test/files.json",
        "certify/test/shard-00000.jsonl",
    )},
    **{f"results with {name}": in_results(name) for name in (
        "sweep.yaml", "cell/recipe.yaml", "cell/benchmark.json", "cell/environment.json", "cell/timing.json",
        "cell/vote.json", "cell/certify/test/settings.json",
    )},
}  # fmt: skip


@cache
def made(name: str, folder: Path) -> Reader:
    folder.mkdir(exist_ok=True)
    return READERS[name](folder)


@pytest.mark.parametrize("part", range(max(1, INPUTS // AT_ONCE)))
@pytest.mark.parametrize("name", READERS)
def test_a_reader_returns_or_refuses_in_one_sentence(name, part, tmp_path):
    reader = made(name, tmp_path / "files")
    counts, slowest = {"read": 0, "refused": 0}, 0.0

    @settings(
        max_examples=min(AT_ONCE, INPUTS), deadline=None, database=None, derandomize=not FUZZ,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(st.randoms(use_true_random=bool(FUZZ)))  # the numbers of others are made smaller where a test fails
    def refuses(random: Random) -> None:
        nonlocal slowest
        content = reader.change(random)
        began, sentence = time.process_time(), reader.named
        try:
            reader.read(content)
            counts["read"] += 1
        except (ValueError, OSError) as error:
            sentence = describe_error(error)
            counts["refused"] += 1
        assert reader.named in sentence
        took = time.process_time() - began
        slowest = max(slowest, took)
        assert took < MOST_SECONDS

    before = most_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refuses()
    grown = most_memory() - before
    assert grown < MOST_GROWTH
    if FUZZ:
        line: dict[str, Any] = {"reader": name, **counts, "slowest_s": round(slowest, 2), "grown_MB": grown >> 20}
        print(json.dumps(line), file=sys.stderr, flush=True)


def most_memory() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
