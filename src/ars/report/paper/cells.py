"""results/<sweep>/<cell>/ read into frozen objects; what a cell does not have yet is None or not there."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ars.names import shown_name
from ars.runs.paths import BENCHMARK, CERTIFY, ENVIRONMENT, MAIN, MASKS, PACKED, RECIPE, SWEEP, TIMING, VOTE
from ars.runs.records import ReportError
from ars.runs.run import Run, load_runs, read_about, read_mapping
from ars.runs.shards import SETTINGS
from ars.runs.vote_count import Tally
from ars.untrusted import parse_json, parse_yaml

LABEL = re.compile(r"-seed\d+-(.+)$")
"""What a cell's name ends with where its sweep file has several groups of the same methods."""

BENCHMARK_NAMES = {
    "cifar_backgrounds": "CIFAR-10 on backgrounds",
    "celeba": "CelebA",
    "imagenet": "ImageNet",
    "digits": "Digits on photographs",
}


@dataclass(frozen=True)
class Cell:
    """One training of a sweep, and all that was measured on it."""

    path: Path
    sweep: str
    """The sweep, with the label of the cell's group where it has one."""
    recipe_name: str
    """What the tables call its recipe: as the sweep file says, else the sweep; another label is another recipe."""
    recipe_note: str
    """What the sweep file says that a reader should know of the recipe."""
    resolved: dict[str, Any]
    method: str
    sigma: float
    seed: int
    kind: str
    title: str
    k: int
    runs: dict[str, Run]
    vote: Tally | None
    seconds: dict[str, float]
    """How long the parts took: train_seconds, certify_seconds, vote_seconds."""
    environment: dict[str, str]
    """What it was trained with."""
    certified_with: dict[str, str]
    """What it was certified with; empty where an earlier version did not write it."""

    @property
    def name(self) -> str:
        """The cell's folder from results/ on."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def recipe(self) -> str:
        """Its recipe's path from results/ on."""
        return f"{self.name}/{RECIPE}"

    @property
    def benchmark(self) -> str:
        """The benchmark's name for a reader, the same at every size."""
        return BENCHMARK_NAMES.get(self.kind, self.title)

    @property
    def inputs(self) -> str:
        """What the images are, as recorded, and what they are not; with their seed where that is not 0."""
        other = " (not BG-20k)" if self.kind == "cifar_backgrounds" and self.k > 32 else ""
        seed = self.resolved["data"].get("seed", 0)
        return self.title + other + (f", data.seed {seed}" if seed else "")

    @property
    def masks(self) -> Path | None:
        """The file with its masks, where it has one."""
        path = self.path / MASKS
        return path if path.exists() else None

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that its numbers come from."""
        names = [RECIPE, BENCHMARK, ENVIRONMENT, TIMING, VOTE]
        names += [f"{CERTIFY}/{name}/{file}" for name in self.runs for file in (SETTINGS, ENVIRONMENT, PACKED)]
        every = (*(self.path / name for name in names), self.path.parent / SWEEP)
        return tuple(path for path in every if path.exists())


def load_cells(root: Path) -> list[Cell]:
    """Every cell of every sweep that has begun; refuses a folder without any."""
    begun = sorted(path.parent for path in root.glob(f"*/*/{RECIPE}") if (path.parent / BENCHMARK).exists())
    if not begun:
        raise ReportError(f"{root} holds no results yet; pack a sweep first: ars pack SWEEP --runs RUNS --out {root}")
    return [_load_cell(path) for path in begun]


def _load_cell(path: Path) -> Cell:
    recipe = read_mapping(path / RECIPE, parse_yaml)
    sweep = _optional(path.parent / SWEEP, parse_yaml) or {}
    labels = LABEL.findall(path.name)
    about = read_about(path)
    timing, environment = (_optional(path / name) or {} for name in (TIMING, ENVIRONMENT))
    vote, certified_with = _optional(path / VOTE), _optional(path / CERTIFY / MAIN / ENVIRONMENT) or {}
    names = sorted(file.parent.name for file in path.glob(f"{CERTIFY}/*/{PACKED}"))
    if MAIN not in names and any(path.glob(f"{CERTIFY}/{MAIN}/*.jsonl")):
        raise ReportError(f"{path} is a run that is not packed; make results of it with ars pack")
    try:
        cell = Cell(
            path=path,
            sweep="+".join([path.parent.name, *labels]),
            recipe_name=shown_name("+".join([str(sweep.get("recipe_name") or path.parent.name), *labels])),
            recipe_note=str(sweep.get("recipe_note") or ""),
            resolved=recipe,
            method=str(recipe["method"]),
            sigma=float(recipe["sigma"]),
            seed=int(recipe["seed"]),
            kind=str(recipe["data"]["kind"]),
            title=about.title,
            k=about.shape[-1],
            runs={name: load_runs([path], name=name, partial=True)[0] for name in names},
            vote=None if vote is None else Tally.of(vote),
            seconds={str(name): float(value) for name, value in timing.items() if value is not None},
            environment={str(name): str(value) for name, value in environment.items()},
            certified_with={str(name): str(value) for name, value in certified_with.items()},
        )
    except ReportError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise ReportError(f"a file of {path} lacks or garbles a field: {error!r}; copy the cell again") from error
    _check(cell)
    return cell


def _check(cell: Cell) -> None:
    """Refuse certifications for another norm, and a vote of other weights than those that were certified."""
    for name, run in cell.runs.items():
        if run.settings.norm != "linf":
            raise ReportError(
                f"{cell.path} was certified for {run.settings.norm}, the tables are for linf; use ars report"
            )
        if cell.vote and run.model != cell.vote.model:
            raise ReportError(
                f"{cell.path / VOTE} is a vote of other weights (model {cell.vote.model}) than those of its records in "
                f"{CERTIFY}/{name} (model {run.model}); vote with these (ars vote RUN) and pack the cell again"
            )


def _optional(path: Path, read: Callable[[str], Any] = parse_json) -> dict[str, Any] | None:
    return read_mapping(path, read) if path.exists() else None
