"""Models that were not trained here: an import path for the model, a benchmark for its images."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import yaml

from ars.certification.evaluating import to_eval_mode
from ars.certification.run_folder import CERTIFY, GIVEN_SIGMA, RECIPE
from ars.certification.shards import read_manifest
from ars.certification.writing import write_whole
from ars.data.benchmark import Benchmark
from ars.data.settings import PLACES
from ars.experiments.build import build_benchmark
from ars.experiments.fingerprint import fingerprint
from ars.experiments.importing import check_fit, import_network
from ars.experiments.recipe import RecipeError
from ars.experiments.recipe_file import read_recipe
from ars.experiments.run import check_data, describe, load_run
from ars.methods import cohen
from ars.report.results import About, read_about
from ars.smoothing import SmoothedClassifier


@dataclass(frozen=True)
class Given:
    """What to certify: package:attribute, overrides of a recipe's data part, and sigma for a plain classifier."""

    model: str
    data: tuple[str, ...]
    sigma: float | None = None

    @property
    def name(self) -> str:
        """Of the code."""
        return self.model

    def load(self, device: torch.device) -> tuple[Benchmark, SmoothedClassifier]:
        """The benchmark and the model, which was not asked anything yet."""
        model = self.model_on(device)
        return build_benchmark(read_recipe(None, self.data), device), model

    def model_on(self, device: torch.device) -> SmoothedClassifier:
        """The model, in eval mode."""
        model = import_model(self.model, self.sigma).to(device)
        to_eval_mode(model)
        return model

    def check_fit(self, benchmark: Benchmark, model: SmoothedClassifier, device: torch.device) -> None:
        """Refuse a model that cannot answer for the benchmark's images."""
        check_fit(self.model, model, benchmark, benchmark.examples("test", [0])[0].to(device))

    def claim(self, folder: Path, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
        """Write what a report needs into a new folder; refuse one that holds another model or something else."""
        recipe = read_recipe(None, self.data)
        data = replace(recipe, data=recipe.data.absolute()).resolved()["data"]
        noise = sum(sigma**-2 for sigma in model.mechanism.sigmas) ** -0.5
        content = {"model": self.model, "method": self.model, "sigma": noise, "seed": 0, "data": data}
        path = folder / RECIPE
        # looked at before the recipe, which another rank may be writing
        used = folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*")))
        if path.exists():
            _check_same(folder, _read(path), content)
            check_data(folder, benchmark, None)
        elif used:
            raise RecipeError(f"{folder} exists and is not a run folder; choose another folder with --out")
        write_whole(path, yaml.safe_dump({**content, GIVEN_SIGMA: self.sigma}, sort_keys=False))
        describe(folder, benchmark, device)


@dataclass(frozen=True)
class Around:
    """A run that was trained here, with what its folder does not hold.

    That is a classifier of one's own, which is imported again (package:attribute), and where its data lies now
    (overrides of its recipe's data part).
    """

    folder: Path
    classifier: str | None = None
    moved: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """Of the code, where the classifier is one of one's own."""
        return self.classifier

    def load(self, device: torch.device) -> tuple[Benchmark, SmoothedClassifier]:
        """The benchmark and the model of the run, all weights as they were trained."""
        return load_run(self.folder, device, classifier=self.classifier, moved=self.moved)[1:]

    def check_fit(self, benchmark: Benchmark, model: SmoothedClassifier, device: torch.device) -> None:
        """Nothing: it was trained on such images."""

    def claim(self, folder: Path, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
        """Nothing: the folder is the run's own."""


def given_again(recipe: dict[str, Any]) -> Given:
    """What the recipe.yaml of its folder says was certified."""
    data = tuple(f"--data.{key}={value}" for key, value in recipe["data"].items() if value is not None)
    return Given(recipe["model"], data, recipe.get(GIVEN_SIGMA))


def load_certified(folder: Path, recipe: dict[str, Any], device: torch.device) -> tuple[About, SmoothedClassifier]:
    """What a folder's recipe.yaml says was certified there, as its records are of it, and on what; needs no data."""
    given, about = given_again(recipe), read_about(folder)
    model = given.model_on(device)
    check_certified(folder, model)  # now, before it answers
    check_fit(given.model, model, about, torch.full((1, *about.shape), 0.5, device=device))
    return about, model


def check_certified(folder: Path, model: SmoothedClassifier) -> None:
    """Refuse a model with other weights or noise than those of the folder's records; it has not answered yet."""
    certified = (read_manifest(path) for path in sorted((folder / CERTIFY).glob("*")) if path.is_dir())
    digests = {manifest.model for manifest in certified if manifest is not None}
    if digests and fingerprint(model) not in digests:
        raise RecipeError(
            f"{folder} holds records of a model with other weights or noise; certify this one into a folder of its own "
            "first (ars certify --model ... --out RUN)"
        )


def _check_same(folder: Path, kept: object, wanted: dict[str, Any]) -> None:
    """Refuse a folder of another model, benchmark or noise; by whom the noise was given, its digest need not say."""
    have = {name: value for name, value in kept.items() if name != GIVEN_SIGMA} if isinstance(kept, dict) else {}
    have, wanted = (_without_places(it) for it in (have, wanted))
    if have == wanted:
        return
    if {**have, "sigma": wanted["sigma"]} == wanted:
        raise RecipeError(
            f"{folder} holds records of {wanted['model']} at sigma = {have.get('sigma')}, asked for is "
            f"{wanted['sigma']:g}; give the same noise, or choose another folder with --out"
        )
    for key, asked in wanted["data"].items():
        if {**have, "data": {**have.get("data", {}), key: asked}} == wanted:
            begun = have.get("data", {}).get(key)
            raise RecipeError(
                f"{folder} was begun with data.{key} = {begun}, asked for is {asked}; give the same, or choose another "
                "folder with --out"
            )
    raise RecipeError(f"{folder} holds another model or benchmark; choose another folder with --out")


def _without_places(content: dict[str, Any]) -> dict[str, Any]:
    """A recipe without what decides no image: where they lie, of which records tell others, and who decodes them."""
    data = content.get("data")
    known = data if isinstance(data, dict) else {}
    return {**content, "data": {key: it for key, it in known.items() if key not in (*PLACES, "workers")}}


def _read(path: Path) -> object:
    """A recipe.yaml; None where it is none, and so belongs to something else."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None


Source = Given | Around
"""What to certify that a run folder alone does not hold."""


def import_model(path: str, sigma: float | None = None) -> SmoothedClassifier:
    """Import package:attribute from the current folder or the environment.

    It is a SmoothedClassifier, or a classifier that is smoothed as in Cohen et al. with the sigma that is given, or a
    function without arguments that returns either.
    """
    found = import_network(path, option="--model")
    if isinstance(found, SmoothedClassifier):
        if sigma is not None:
            raise ValueError(f"{path} is smoothed already and brings its own noise; leave --sigma out")
        return found
    if sigma is None:
        raise ValueError(f"{path} is a classifier without noise; say how much to smooth it with: --sigma S")
    return cohen(found, sigma=sigma)
