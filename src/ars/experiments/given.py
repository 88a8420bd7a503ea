"""Models that were not trained here: an import path for the model, a benchmark for its images."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from ars.certification.writing import write_whole
from ars.data.benchmark import Benchmark
from ars.experiments.build import build_benchmark
from ars.experiments.files import RECIPE
from ars.experiments.recipe import RecipeError, read_recipe
from ars.experiments.run import describe
from ars.methods import cohen
from ars.smoothing import SmoothedClassifier


@dataclass(frozen=True)
class Given:
    """What to certify: package:attribute, overrides of a recipe's data part, and sigma for a plain classifier."""

    model: str
    data: tuple[str, ...]
    sigma: float | None = None

    def load(self, device: torch.device) -> tuple[Benchmark, SmoothedClassifier]:
        """The benchmark and the model, in eval mode, which must fit each other."""
        model = import_model(self.model, self.sigma).to(device).eval()
        benchmark = build_benchmark(read_recipe(None, self.data), device)
        _check_fit(self.model, model, benchmark, device)
        return benchmark, model

    def claim(self, folder: Path, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
        """Write what a report needs into a new folder; refuse one that holds another model or something else."""
        recipe = yaml.safe_load(read_recipe(None, self.data).to_yaml())
        noise = sum(sigma**-2 for sigma in model.mechanism.sigmas) ** -0.5
        content = {"model": self.model, "method": self.model, "sigma": noise, "seed": 0, "data": recipe["data"]}
        path = folder / RECIPE
        # looked at before the recipe, which another rank may be writing
        used = folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*")))
        if path.exists():
            if yaml.safe_load(path.read_text(encoding="utf-8")) != content:
                raise RecipeError(f"{folder} holds another model or benchmark; choose another folder with --out")
        elif used:
            raise RecipeError(f"{folder} exists and is not a run folder; choose another folder with --out")
        write_whole(path, yaml.safe_dump(content, sort_keys=False))
        describe(folder, benchmark, device)


def import_model(path: str, sigma: float | None = None) -> SmoothedClassifier:
    """Import package:attribute from the current folder or the environment.

    It is a SmoothedClassifier, or a classifier that is smoothed as in Cohen et al. with the sigma that is given, or a
    function without arguments that returns either.
    """
    found = _attribute(path)
    if not isinstance(found, nn.Module) and callable(found):
        found = _call(path, found)
    if isinstance(found, SmoothedClassifier):
        if sigma is not None:
            raise ValueError(f"{path} is smoothed already and brings its own noise; leave --sigma out")
        return found
    if not isinstance(found, nn.Module):
        raise ValueError(f"{path} must be or return a SmoothedClassifier or an nn.Module, got {type(found).__name__}")
    if sigma is None:
        raise ValueError(f"{path} is a classifier without noise; say how much to smooth it with: --sigma S")
    return cohen(found, sigma=sigma)


def _attribute(path: str) -> Any:
    module_name, colon, names = path.partition(":")
    if not (module_name and colon and names):
        raise ValueError(f"--model must look like package.module:attribute, got {path!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(
            f"cannot import {module_name} from {here} or the environment: {type(error).__name__}: {error}"
        ) from error
    for name in names.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{module_name} has no attribute {names!r}; check what stands after the colon")
        found = getattr(found, name)
    return found


def _call(path: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        raise ValueError(f"{path} was called without arguments and failed: {type(error).__name__}: {error}") from error


@torch.inference_mode()
def _check_fit(path: str, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
    """Refuse, before anything is drawn, a model that cannot answer for the benchmark's images."""
    images = benchmark.examples("test", [0])[0].to(device)
    try:
        shape = list(model(images, torch.Generator(device).manual_seed(0)).shape)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        first = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{path} cannot take the {benchmark.title} images of shape {list(benchmark.shape)}: {first}"
        ) from error
    classes = len(benchmark.class_names)
    if shape != [1, classes]:
        raise ValueError(f"{path} gives logits of shape {shape} for one image, {benchmark.title} has {classes} classes")
