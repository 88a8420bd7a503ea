"""Models that were not trained here: an import path for the model and a benchmark for its images."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ars.adapters import Adapted, from_timm, from_transformers
from ars.atomic import write_whole
from ars.certification.digest import digest_model
from ars.certification.model_copy import eval_mode
from ars.data.benchmark import Benchmark, name_classes, open_benchmark
from ars.data.settings import PLACES, DataWarning
from ars.methods.cohen import cohen
from ars.recipes.read import read_recipe
from ars.recipes.recipe import RecipeError
from ars.recipes.user_code import check_fit, import_network
from ars.runs.paths import CERTIFY, GIVEN_SIGMA, RECIPE
from ars.runs.run import About, read_about
from ars.runs.shards import read_manifest
from ars.smoothing import SmoothedClassifier
from ars.untrusted import dump_yaml, parse_yaml, read_text
from ars.workflows.load import NO_RUN, check_data, describe, is_used

ADAPTERS = {"timm": from_timm, "transformers": from_transformers}
"""What stands before the colon of a model of another library."""


@dataclass(frozen=True)
class Given:
    """An imported model: its path, overrides of a recipe's data part, and sigma for a plain classifier."""

    model: str
    data: tuple[str, ...]
    sigma: float | None = None

    def load(self, device: torch.device) -> tuple[Benchmark, SmoothedClassifier]:
        """The benchmark and the model, which has not run yet."""
        benchmark = open_benchmark(read_recipe(None, self.data).data, device)
        return benchmark, self.model_on(device, benchmark.class_names)

    def model_on(self, device: torch.device, class_names: Sequence[str]) -> SmoothedClassifier:
        """The model of images of these classes, in eval mode."""
        model = import_model(self.model, self.sigma, class_names).to(device)
        eval_mode(model)
        return model

    def claim(self, folder: Path, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
        """Write what a report needs into a new folder; refuse a folder with another model or anything else."""
        recipe = read_recipe(None, self.data)
        data = replace(recipe, data=recipe.data.absolute()).resolved()["data"]
        content = {"model": self.model, "method": self.model, "sigma": combined_noise(model), "seed": 0, "data": data}
        claim_folder(folder, content, {GIVEN_SIGMA: self.sigma}, benchmark, device)


def combined_noise(model: SmoothedClassifier) -> float:
    """The noise of one look that is worth all of the model's looks."""
    return float(sum(sigma**-2 for sigma in model.mechanism.sigmas) ** -0.5)


def claim_folder(
    folder: Path, content: dict[str, Any], others: dict[str, Any], benchmark: Benchmark, device: torch.device
) -> None:
    """Write recipe.yaml and benchmark.json; refuse a folder of other content; the others may differ."""
    path = folder / RECIPE
    used = is_used(folder)  # checked before the recipe, which another rank may be writing
    if path.exists():
        _check_same(folder, _read(path), content)
        check_data(folder, benchmark, None)
    elif used:
        raise RecipeError(f"{folder} {NO_RUN}")
    write_whole(path, dump_yaml({**content, **others}))
    describe(folder, benchmark, device)


def load_certified(folder: Path, recipe: dict[str, Any], device: torch.device) -> tuple[About, SmoothedClassifier]:
    """The inputs and the model of a folder's records, as its recipe.yaml describes them; needs no data."""
    data = tuple(f"--data.{key}={value}" for key, value in recipe["data"].items() if value is not None)
    given, about = Given(recipe["model"], data, recipe.get(GIVEN_SIGMA)), read_about(folder)
    model = given.model_on(device, about.class_names)
    check_certified(folder, model)  # before the model runs, which may change it
    check_fit(given.model, model, about, torch.full((1, *about.shape), 0.5, device=device))
    return about, model


def check_certified(folder: Path, model: SmoothedClassifier) -> None:
    """Refuse a model with other weights or noise than those of the folder's records; it must not have run yet."""
    certified = (read_manifest(path) for path in sorted((folder / CERTIFY).glob("*")) if path.is_dir())
    digests = {manifest.model for manifest in certified if manifest is not None}
    if digests and digest_model(model) not in digests:
        raise RecipeError(
            f"{folder} holds records of a model with other weights or noise; certify this one into another folder "
            "first (ars certify --model ... --out RUN)"
        )


def _check_same(folder: Path, kept: object, wanted: dict[str, Any]) -> None:
    """Refuse a folder of another model, benchmark or noise; whether --sigma gave the noise does not matter."""
    have = {name: value for name, value in kept.items() if name != GIVEN_SIGMA} if isinstance(kept, dict) else {}
    have, wanted = (_without_places(content) for content in (have, wanted))
    if have == wanted:
        return
    if {**have, "sigma": wanted["sigma"]} == wanted:
        raise RecipeError(
            f"{folder} holds records of {wanted['model']} at sigma = {have.get('sigma')}, got "
            f"{wanted['sigma']:g}; use the same noise, or choose another folder with --out"
        )
    for key, value in wanted["data"].items():
        if {**have, "data": {**have.get("data", {}), key: value}} == wanted:
            begun = have.get("data", {}).get(key)
            raise RecipeError(
                f"{folder} was started with data.{key} = {begun}, got {value}; use the same value, or choose another "
                "folder with --out"
            )
    raise RecipeError(f"{folder} holds another model or benchmark; choose another folder with --out")


def _without_places(content: dict[str, Any]) -> dict[str, Any]:
    """A recipe without the data keys that change no image; records tell whether images at another place differ."""
    data = content.get("data")
    items = data.items() if isinstance(data, dict) else ()
    return {**content, "data": {key: value for key, value in items if key not in (*PLACES, "workers")}}


def _read(path: Path) -> object:
    """The content of a recipe.yaml; None if it cannot be read, so that it belongs to something else."""
    try:
        return parse_yaml(read_text(path))
    except (OSError, ValueError):
        return None


def import_model(path: str, sigma: float | None = None, class_names: Sequence[str] = ()) -> SmoothedClassifier:
    """The model of package:attribute, timm:NAME or transformers:PATH; packages lie here or in the environment.

    It is a SmoothedClassifier, or a classifier that is smoothed with this sigma as in Cohen et al., or a function
    without arguments that returns either. A model of another library gives the logits of the images' classes.
    """
    source, _, name = path.partition(":")
    if source in ADAPTERS and name:
        found: nn.Module = match_classes(ADAPTERS[source](name), class_names)
    else:
        found = import_network(path, option="--model")
    if isinstance(found, SmoothedClassifier):
        if sigma is not None:
            raise ValueError(f"{path} is already smoothed and has its own noise; leave --sigma out")
        return found
    if sigma is None:
        raise ValueError(f"{path} is a classifier without noise; give the noise level with --sigma S")
    return cohen(found, sigma=sigma)


def match_classes(model: Adapted, class_names: Sequence[str]) -> Adapted:
    """The model's logits in the order of the images' classes, found by name; by number if names are not the model's."""
    if not class_names or tuple(class_names) == model.class_names:
        return model
    if set(class_names) <= set(model.class_names):
        return model.of_classes(class_names)
    if len(class_names) == len(model.class_names):
        warnings.warn(
            f"the model's classes ({name_classes(model.class_names)}) are not named as those of the images "
            f"({name_classes(class_names)}), so they are matched by their numbers; rename the folders if that is wrong",
            DataWarning,
            stacklevel=2,
        )
    return model
