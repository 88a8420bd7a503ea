"""Finished cells as small, portable folders that hold only what tables, figures and a new certification need.

Packing twice gives the same bytes.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ars.atomic import remove_stale, write_whole
from ars.recipes.read import read_recipe
from ars.runs.paths import (
    ATTACK,
    BENCHMARK,
    CERTIFY,
    ENVIRONMENT,
    LOG,
    MAIN,
    MASKS,
    MODEL,
    PACKED,
    RECIPE,
    STAGES,
    SWEEP,
    TIMING,
    VOTE,
    attack_path,
    records_folder,
)
from ars.runs.run import train_seconds
from ars.runs.shards import SETTINGS, merge
from ars.runs.vote_count import read_tally
from ars.workflows.sweeps.file import Cell, Sweep, portable
from ars.workflows.sweeps.plan import Row, make_plan
from ars.workflows.sweeps.state import check_recipe

MAY_BE_SHOWN = ("digits",)
"""Kinds of data whose images may be published in a repository."""


def pack_sweep(
    sweep: Sweep, runs: Path, results: Path, *, report: Callable[[Cell, str], None] = lambda cell, what: None
) -> int:
    """Pack the finished cells into results/<sweep>, with a report on every cell; returns how many were packed.

    Nothing is written if a cell of another training is already packed under the name of one of these.
    """
    if results.exists() and not results.is_dir():
        raise ValueError(f"{results} is a file; choose a folder with --out")
    rows, packed = make_plan(sweep, runs, results).rows, 0
    if any(row.done and not row.packed for row in rows):
        for row in rows:
            _check_target(row, runs / row.cell.name, results / sweep.name / row.cell.name)
    for row in rows:
        if row.packed:
            report(row.cell, "packed before")
        elif row.done:
            size = pack_cell(row.cell, runs / row.cell.name, results / sweep.name / row.cell.name)
            report(row.cell, f"{size / 1e6:.2f} MB")
            packed += 1
        else:
            report(row.cell, f"left out: {row.problem or row.left}")
    if packed:
        write_whole(results / sweep.name / SWEEP, sweep.path.read_bytes())
    return packed


def unlisted_cells(sweep: Sweep, results: Path) -> list[str]:
    """The cells in results/<sweep> that the sweep file does not name."""
    packed = {path.parent.name for path in (results / sweep.name).glob(f"*/{RECIPE}")}
    return sorted(packed - {cell.name for cell in sweep.cells})


def _check_target(row: Row, run: Path, target: Path) -> None:
    """Refuse to overwrite a cell of another training, whose weights may exist nowhere else."""
    finished = row.done and not row.packed
    trained = read_recipe(run / RECIPE) if finished else row.cell.recipe
    check_recipe(target, portable(trained), "another folder with --out")


def pack_cell(cell: Cell, run: Path, target: Path) -> int:
    """Pack one finished cell; returns its size in bytes."""
    logged = (run / LOG).exists()  # an earlier version wrote no log if training ended before the first epoch did
    kept = (BENCHMARK, ENVIRONMENT, *([LOG] if logged else []), *([MASKS] if cell.recipe.masked else []))
    content: dict[str, str | bytes] = {name: (run / name).read_bytes() for name in kept}
    begun = read_recipe(run / RECIPE)  # it has the digest of an already trained classifier
    records = merge(records_folder(run, MAIN)).records
    # there may be more records than the sweep asks for
    certify = replace(cell.recipe.certify, examples=len(records))
    content[RECIPE] = portable(replace(cell.recipe, classifier=begun.classifier, certify=certify)).to_yaml()
    lines = "".join(record.to_json() + "\n" for record in records)
    content[f"{CERTIFY}/{MAIN}/{SETTINGS}"] = (records_folder(run, MAIN) / SETTINGS).read_bytes()
    content[f"{CERTIFY}/{MAIN}/{PACKED}"] = gzip.compress(lines.encode(), mtime=0)
    began = records_folder(run, MAIN) / ENVIRONMENT
    if began.exists():  # an earlier version did not write it
        content[f"{CERTIFY}/{MAIN}/{ENVIRONMENT}"] = began.read_bytes()
    stages = records_folder(run, MAIN) / STAGES
    if cell.keep_weights and cell.recipe.data.kind in MAY_BE_SHOWN and stages.exists():
        content[f"{CERTIFY}/{MAIN}/{STAGES}"] = stages.read_bytes()
    attacks = attack_path(run, MAIN)
    if attacks.exists():
        content[f"{ATTACK}/{attacks.name}"] = attacks.read_bytes()
    timing = {"certify_seconds": round(sum(record.seconds for record in records), 1)}
    if (seconds := train_seconds(run)) is not None:
        timing["train_seconds"] = seconds
    tally = read_tally(run)
    if cell.vote and tally:
        content[VOTE] = tally.to_json()
        timing["vote_seconds"] = round(tally.seconds, 1)
    content[TIMING] = json.dumps(timing, indent=1) + "\n"
    if cell.keep_weights:
        from ars.workflows.weights import packed_weights

        content[MODEL] = packed_weights(run / MODEL)
    for folder in {target.parent, *((target / name).parent for name in content)}:
        remove_stale(folder)
    for name, data in content.items():
        write_whole(target / name, data)
    others = {f"{CERTIFY}/{MAIN}/{name}" for name in (STAGES, ENVIRONMENT)}
    for name in {LOG, MASKS, MODEL, VOTE, *others} - content.keys():  # files of an earlier packing
        (target / name).unlink(missing_ok=True)
    return sum((target / name).stat().st_size for name in content)
