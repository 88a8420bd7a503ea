"""Run folders: a recipe, its trained model, its records; each step goes on where it was interrupted.

recipe.yaml, benchmark.json, environment.json, train.jsonl and model.safetensors are written here,
certify/<name>/ with settings.json, shard-*.jsonl and stages.npz by ars.experiments.certifying.
"""

import json
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ars.certification.writing import write_whole
from ars.data.benchmark import Benchmark
from ars.experiments.build import build_benchmark, build_model
from ars.experiments.device import choose_precision
from ars.experiments.recipe import Recipe, RecipeError, read_recipe
from ars.methods.adaptive import settled
from ars.smoothing import SmoothedClassifier
from ars.training.checkpoint import load_model, load_tensors, save_tensors
from ars.training.loop import CHECKPOINT, Progress, Trainer

RECIPE, MODEL = "recipe.yaml", "model.safetensors"


def train_run(
    recipe: Recipe,
    folder: Path,
    *,
    device: torch.device,
    report: Callable[[Progress], None] = lambda progress: None,
    tick: Callable[[int, int], None] = lambda step, steps: None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train the recipe into the folder, or go on there; False where that was done already."""
    _claim(folder, recipe)
    if (folder / MODEL).exists():
        return False
    benchmark = build_benchmark(recipe, device)
    describe(folder, benchmark, device)
    model = build_model(recipe, benchmark, device)
    trainer = Trainer(
        model,
        benchmark,
        recipe.train,
        seed=recipe.seed,
        precision=choose_precision(recipe.train.precision, device),
        folder=folder,
        identity=recipe.identity,
        norm=recipe.certify.norm,
    )
    trainer.run(report=report, tick=lambda step: tick(step, trainer.steps), stop=stop)
    save_tensors(folder / MODEL, model.state_dict(), {"identity": recipe.identity})
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return True


def load_run(folder: Path, device: torch.device) -> tuple[Recipe, Benchmark, SmoothedClassifier]:
    """The recipe, benchmark and trained model of a run folder; a learned split is plain numbers from here on."""
    if not (folder / RECIPE).is_file():
        raise RecipeError(f"{folder} is not a run folder: it has no {RECIPE}; make one with ars train")
    recipe = read_recipe(folder / RECIPE)
    tensors, _ = load_tensors(folder / MODEL)
    benchmark = build_benchmark(recipe, device)
    model = build_model(recipe, benchmark, device)
    load_model(model, tensors, folder / MODEL)
    return recipe, benchmark, settled(model).eval()


def _claim(folder: Path, recipe: Recipe) -> None:
    """Write the recipe into a new folder; refuse one that holds another recipe or something else."""
    path = folder / RECIPE
    if path.exists():
        if read_recipe(path).identity != recipe.identity:
            raise RecipeError(f"{folder} holds a run of another recipe; choose another folder with --out")
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecipeError(f"{folder} exists and is not a run folder; choose another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, recipe.to_yaml())


def describe(folder: Path, benchmark: Benchmark, device: torch.device) -> None:
    """Write what the report needs to know of the benchmark, and what the run was made with."""
    about = {"title": benchmark.title, "class_names": list(benchmark.class_names), "shape": list(benchmark.shape)}
    write_whole(folder / "benchmark.json", json.dumps(about))
    packages = {name: _version(name) for name in ("adaptive-smoothing", "torch", "numpy", "scipy")}
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    write_whole(
        folder / "environment.json", json.dumps({"python": platform.python_version(), **packages, "device": name})
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
