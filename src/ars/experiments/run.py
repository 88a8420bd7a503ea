"""Run folders: a recipe, its trained model, its records; each step goes on where it was interrupted.

Training (ars.experiments.training) writes recipe.yaml, benchmark.json, environment.json, train.jsonl,
checkpoint.safetensors while it lasts, timing.json, masks/, tensorboard/, start/ and model.safetensors. Certification
(ars.experiments.certifying) adds certify/<name>/ with settings.json, environment.json, files.json, shard-*.jsonl and
stages.npz, the vote (ars.experiments.voting) vote.json and, until it is done, vote-begun.json, a sweep masks.npz and
pipeline.svg (ars.experiments.sweeps.masks).
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ars.certification.run_folder import BENCHMARK, MAIN, MODEL, PACKED, RECIPE, records_folder
from ars.certification.writing import remove_stale, write_whole
from ars.data.benchmark import Benchmark
from ars.data.errors import DataError
from ars.data.moments import Moments
from ars.data.settings import PLACES
from ars.experiments.borrowing import PREFIX, pinned
from ars.experiments.build import Inputs, build_benchmark, build_model
from ars.experiments.certifiable import check_subset
from ars.experiments.environment import write_environment
from ars.experiments.recipe import Recipe, RecipeError, first_difference
from ars.experiments.recipe_file import imported_model, read_recipe
from ars.methods.adaptive import settled
from ars.report.results import About, read_about
from ars.smoothing import SmoothedClassifier
from ars.training.checkpoint import load_model, load_tensors, misfits, under

NEAR = 1e-9  # how far apart rounding may take moments of the same images, which are exact counts


def load_run(
    folder: Path, device: torch.device, *, classifier: str | None = None, moved: Sequence[str] = ()
) -> tuple[Recipe, Benchmark, SmoothedClassifier]:
    """The recipe, benchmark and trained model of a run folder; a learned split is plain numbers from here on.

    Code that a folder names is never imported unasked: a classifier that was imported for training is named again.
    moved are overrides of its recipe that say where its data lies now, of the same classes.
    """
    recipe, tensors = _read(folder, classifier, moved)
    benchmark = build_benchmark(recipe, device)
    _check_classes(folder, benchmark)
    return recipe, benchmark, _trained(recipe, benchmark, tensors, folder, device)


def load_without_data(
    folder: Path, device: torch.device, *, classifier: str | None = None, moved: Sequence[str] = ()
) -> tuple[Inputs, SmoothedClassifier]:
    """The inputs of a run's model, and the very model that load_run gives, from the files of the run folder alone.

    Sukenik et al.'s noise is measured from training images, which no run folder holds: it needs the data.
    """
    recipe, tensors = _read(folder, classifier, moved)
    inputs = _Described(folder, read_about(folder), recipe, device)
    return inputs, _trained(recipe, inputs, tensors, folder, device)


class _Described:
    """The inputs of a trained model as the run folder describes them; the data is opened for references only."""

    def __init__(self, folder: Path, about: About, recipe: Recipe, device: torch.device) -> None:
        self.shape, self.class_names = about.shape, about.class_names
        self._folder, self._recipe, self._device = folder, recipe, device

    def moments(self) -> tuple[list[float], list[float]]:
        """Any: those of the training inputs are among the weights."""
        return [0.0] * self.shape[0], [1.0] * self.shape[0]

    def references(self) -> Tensor:
        """Those that the model was trained with."""
        try:
            return build_benchmark(self._recipe, self._device).references()
        except DataError as error:
            why = f"which the noise of {self._recipe.method} is measured from"
            raise DataError(f"{self._folder} needs its training images, {why}: {error}") from error


def _read(folder: Path, classifier: str | None, moved: Sequence[str]) -> tuple[Recipe, dict[str, Tensor]]:
    if not (folder / RECIPE).is_file():
        raise RecipeError(f"{folder} is not a run folder: it has no {RECIPE}; make one with ars train")
    recipe = _with_classifier(read_recipe(folder / RECIPE, moved), classifier, folder)
    if (records_folder(folder, MAIN) / PACKED).exists() and not (folder / MODEL).exists():
        again = f"ars train {shlex.quote(str(folder / RECIPE))} --out RUN"
        raise RecipeError(f"{folder} was packed without its weights; train it again ({again}), then take that folder")
    if not (folder / MODEL).exists():
        told = f"the training of {folder} has not ended: there is no {MODEL}"
        raise RecipeError(f"{told}; run the same ars train (or ars sweep) again")
    return recipe, load_tensors(folder / MODEL)[0]


def _check_classes(folder: Path, benchmark: Benchmark) -> None:
    """Refuse data of other classes: their labels would mean something else to the model."""
    trained = read_about(folder).class_names
    if tuple(benchmark.class_names) != trained:
        [odd, *_] = sorted(set(benchmark.class_names) ^ set(trained)) or trained
        raise DataError(
            f"{benchmark.title} has other classes than {folder} was trained on, {odd} for one; say where the data of "
            "the run is with --data.root PATH"
        )


def _trained(
    recipe: Recipe, inputs: Inputs, tensors: Mapping[str, Tensor], folder: Path, device: torch.device
) -> SmoothedClassifier:
    model = build_model(recipe, inputs, device)
    if recipe.classifier.factory is not None:
        _check_classifier(recipe.classifier.factory, model, tensors, folder)
    load_model(model, tensors, folder / MODEL)  # every tensor of the model, or it is refused
    return settled(model).eval()


def _check_classifier(named: str, model: SmoothedClassifier, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse another network than the one of one's own that a run was trained around."""
    wrong = misfits(model.classifier, under(tensors, PREFIX))
    if wrong:
        own = read_recipe(folder / RECIPE).classifier.factory
        raise RecipeError(
            f"--classifier {named} is another network than {folder} was trained around: {len(wrong)} tensors do not "
            f"fit, {wrong[0]} for one; give --classifier {own}, its code as it was then"
        )


def _with_classifier(recipe: Recipe, classifier: str | None, folder: Path) -> Recipe:
    factory = recipe.classifier.factory
    if factory is not None and classifier is None:
        raise RecipeError(f"{folder} was trained around a classifier of your own; give --classifier {factory} again")
    if factory is None and classifier is not None:
        raise RecipeError(f"{folder} has a classifier of its own, trained here; leave --classifier out")
    return replace(recipe, classifier=replace(recipe.classifier, factory=classifier))


def check_folder(folder: Path, recipe: Recipe) -> None:
    """Refuse a folder that holds another recipe or something else."""
    path = folder / RECIPE
    if path.exists():
        have = _kept_recipe(path)
        if have.identity != recipe.identity:
            told = first_difference(have, recipe)
            raise RecipeError(f"{folder} holds a run of another recipe{told}; choose another folder with --out")
    # a killed process may have left a hidden file on its way to recipe.yaml
    elif folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise RecipeError(f"{folder} exists and is not a run folder; choose another folder with --out")


def _kept_recipe(path: Path) -> Recipe:
    """The recipe of a run that was trained here, or begun; that of a model of one's own is none."""
    if imported := imported_model(path):
        raise RecipeError(
            f"{path.parent} holds records of another model, {imported['model']}, which was not trained here; choose "
            "another folder with --out"
        )
    return read_recipe(path)


def claim(folder: Path, recipe: Recipe) -> None:
    """Write the recipe into a new folder, and clear away what a killed process left half-written."""
    remove_stale(folder)
    if not (folder / RECIPE).exists():
        write_whole(folder / RECIPE, recipe.to_yaml())


def keep_certification(folder: Path, recipe: Recipe) -> list[str]:
    """Put the recipe's certification into the recipe.yaml of a run that was begun with another; what is changed.

    It decides no weight, and certifications that are begun keep their own. More images than there are are refused.
    """
    path = folder / RECIPE
    kept = _kept_recipe(path) if path.is_file() else None
    if kept is None or kept.certify == recipe.certify or kept.identity != pinned(recipe).identity:
        return []
    asked = [(it.examples, it.every) for it in (kept.certify, recipe.certify)]
    if asked[0] != asked[1] and not recipe.at_most:
        check_subset(build_benchmark(recipe, torch.device("cpu")), recipe.certify)
    write_whole(path, replace(kept, certify=recipe.certify).to_yaml())
    before, after = asdict(kept.certify), asdict(recipe.certify)
    return [
        f"certify.{name} is {after[name]} from now on, was {before[name]}; a certification that is begun keeps its own"
        for name in after
        if after[name] != before[name]
    ]


def as_begun(folder: Path, recipe: Recipe) -> tuple[Recipe, dict[str, str | None]]:
    """The recipe as an unfinished run of it was begun, and where its data lies now; nothing where that is the same."""
    path = folder / RECIPE
    there = _kept_recipe(path).data if path.is_file() and not (folder / MODEL).exists() else recipe.data
    now = {place: getattr(recipe.data, place) for place in PLACES}
    moved = {place: path for place, path in now.items() if path != getattr(there, place)}
    if not moved or there.kind != recipe.data.kind:
        return recipe, {}
    begun = replace(recipe, data=recipe.data.at({place: getattr(there, place) for place in moved}))
    return (begun, moved) if pinned(begun).identity == _kept_recipe(path).identity else (recipe, {})


def describe(folder: Path, benchmark: Benchmark, device: torch.device, moments: Moments | None = None) -> None:
    """Write what the report needs to know of the benchmark, and what the run was made with.

    moments are those of the training inputs, where a training knows them.
    """
    about = {"title": benchmark.title, "class_names": list(benchmark.class_names), "shape": list(benchmark.shape)}
    known = {} if moments is None else {"mean": moments[0], "std": moments[1]}
    write_whole(folder / BENCHMARK, json.dumps(about | known))
    write_environment(folder, device)


def check_data(folder: Path, benchmark: Benchmark, moments: Moments | None) -> None:
    """Refuse to go on with a training on other data than it was begun with, wherever that lies.

    Other images give themselves away by the mean and deviation of the training inputs.
    """
    if not (folder / BENCHMARK).is_file():
        return
    about = read_about(folder)
    same = (tuple(benchmark.class_names), benchmark.shape) == (about.class_names, about.shape)
    if same and moments is not None and about.moments is not None:
        same = np.allclose(moments, about.moments, rtol=0, atol=NEAR)
    if not same:
        raise DataError(
            f"{folder} was begun on other images than those of {benchmark.title}; say where its own are "
            "(--data.root PATH), or choose another folder with --out"
        )
