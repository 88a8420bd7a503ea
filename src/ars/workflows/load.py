"""Loading the trained model of a run folder, and claiming a folder for a new run."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ars.atomic import write_whole
from ars.data.benchmark import Benchmark, Moments, Opener, open_benchmark
from ars.data.settings import PLACES, DataError
from ars.methods.adaptive import fix_split
from ars.methods.builder import Inputs
from ars.names import shown_name
from ars.recipes.build import build_model, check_subset
from ars.recipes.read import imported_model, read_recipe
from ars.recipes.recipe import Recipe, RecipeError, first_difference
from ars.runs.paths import BENCHMARK, MAIN, MODEL, PACKED, RECIPE, find_run, records_folder
from ars.runs.run import About, read_about
from ars.smoothing import SmoothedClassifier
from ars.tensors import load_model, load_tensors, misfits, under
from ars.workflows.hardware import write_environment
from ars.workflows.weights import PREFIX, pinned

NO_RUN = "exists and is not a run folder; choose another folder with --out"
NEAR = 1e-9  # moments of the same images differ by rounding only, since they come from exact counts


def load_run(
    folder: Path,
    device: torch.device,
    *,
    classifier: str | None = None,
    moved: Sequence[str] = (),
    open_data: Opener = open_benchmark,
) -> tuple[Recipe, Benchmark, SmoothedClassifier]:
    """The recipe, benchmark and trained model of a run folder; a learned split becomes plain numbers.

    Code that a folder names is never imported on its own: the caller must name an imported classifier again.
    moved holds overrides of the recipe with the new place of data that was moved; its classes must be the same.
    """
    recipe, tensors = _read(folder, classifier, moved)
    benchmark = open_data(recipe.data, device)
    _check_classes(folder, benchmark)
    return recipe, benchmark, _trained(recipe, benchmark, tensors, folder, device)


def load_without_data(
    folder: Path, device: torch.device, *, classifier: str | None = None, moved: Sequence[str] = ()
) -> tuple[Inputs, SmoothedClassifier]:
    """The inputs of a run's model, and the same model as load_run returns, from the files of the run folder alone.

    Sukenik et al.'s noise is measured from training images, which no run folder holds, so it needs the data.
    """
    recipe, tensors = _read(folder, classifier, moved)
    inputs = _Described(folder, read_about(folder), recipe, device)
    return inputs, _trained(recipe, inputs, tensors, folder, device)


class _Described:
    """The inputs of a trained model as the run folder describes them; the data is opened only for references."""

    def __init__(self, folder: Path, about: About, recipe: Recipe, device: torch.device) -> None:
        self.shape, self.class_names = about.shape, about.class_names
        self._folder, self._recipe, self._device = folder, recipe, device

    def moments(self) -> tuple[list[float], list[float]]:
        """Placeholders: the real moments are part of the weights."""
        return [0.0] * self.shape[0], [1.0] * self.shape[0]

    def references(self) -> Tensor:
        """The references that the model was trained with."""
        try:
            return open_benchmark(self._recipe.data, self._device).references()
        except DataError as error:
            why = f"the noise of {self._recipe.method} is measured from them"
            raise DataError(f"{self._folder} needs its training images, because {why}: {error}") from error


def _read(folder: Path, classifier: str | None, moved: Sequence[str]) -> tuple[Recipe, dict[str, Tensor]]:
    if not (folder / RECIPE).is_file():
        raise RecipeError(f"{folder} is not a run folder: it has no {RECIPE}; make one with ars train")
    recipe = _with_classifier(read_recipe(folder / RECIPE, moved), classifier, folder)
    if (records_folder(folder, MAIN) / PACKED).exists() and not (folder / MODEL).exists():
        again = f"ars train {shlex.quote(str(folder / RECIPE))} --out RUN"
        raise RecipeError(f"{folder} was packed without its weights; train it again ({again}), then use that folder")
    if not (folder / MODEL).exists():
        advice = "run the same ars train (or ars sweep) again"
        raise RecipeError(f"the training of {folder} is not complete: there is no {MODEL}; {advice}")
    return recipe, load_tensors(folder / MODEL)[0]


def _check_classes(folder: Path, benchmark: Benchmark) -> None:
    """Refuse data with other classes: their labels would mean something else to the model."""
    trained, names = read_about(folder).class_names, tuple(map(shown_name, benchmark.class_names))
    if names != trained:
        [odd, *_] = sorted(set(names) ^ set(trained)) or trained
        raise DataError(
            f"{benchmark.title} has other classes than {folder} was trained on, such as {odd}; give the place of the "
            "run's data with --data.root PATH"
        )


def _trained(
    recipe: Recipe, inputs: Inputs, tensors: Mapping[str, Tensor], folder: Path, device: torch.device
) -> SmoothedClassifier:
    model = build_model(recipe, inputs, device)
    if recipe.classifier.factory is not None:
        _check_classifier(recipe.classifier.factory, model, tensors, folder)
    load_model(model, tensors, folder / MODEL)  # refuses tensors that are missing or do not fit
    return fix_split(model).eval()


def _check_classifier(named: str, model: SmoothedClassifier, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse another network than the user's own that a run was trained around."""
    wrong = misfits(model.classifier, under(tensors, PREFIX))
    if wrong:
        original = read_recipe(folder / RECIPE).classifier.factory
        raise RecipeError(
            f"--classifier {named} is another network than {folder} was trained around: {len(wrong)} tensors do not "
            f"fit, such as {wrong[0]}; give --classifier {original} with its code as it was then"
        )


def _with_classifier(recipe: Recipe, classifier: str | None, folder: Path) -> Recipe:
    factory = recipe.classifier.factory
    if factory is not None and classifier is None:
        raise RecipeError(f"{folder} was trained around your own classifier; give --classifier {factory} again")
    if factory is None and classifier is not None:
        raise RecipeError(f"{folder} has a classifier that was trained here; leave --classifier out")
    return replace(recipe, classifier=replace(recipe.classifier, factory=classifier))


def check_folder(folder: Path, recipe: Recipe) -> None:
    """Refuse a folder that holds another recipe or anything else."""
    path = folder / RECIPE
    if path.exists():
        have = _kept_recipe(path)
        if have.identity != recipe.identity:
            where = first_difference(have, recipe)
            raise RecipeError(f"{folder} holds a run of another recipe{where}; choose another folder with --out")
    elif is_used(folder):
        raise RecipeError(f"{folder} {NO_RUN}")


def is_used(folder: Path) -> bool:
    """Whether anything is in the folder's place except hidden files, which a killed process may have left."""
    return folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*")))


def _kept_recipe(path: Path) -> Recipe:
    """The recipe of a run that was trained here, finished or not; refuses that of an imported model."""
    if imported := imported_model(path):
        raise RecipeError(
            f"{path.parent} holds records of another model, {imported['model']}, which was not trained here; choose "
            "another folder with --out"
        )
    return read_recipe(path)


def claim(folder: Path, recipe: Recipe) -> None:
    """Write the recipe into a new folder."""
    if not (folder / RECIPE).exists():
        write_whole(folder / RECIPE, recipe.to_yaml())


def keep_certification(folder: Path, recipe: Recipe) -> list[str]:
    """Write changed certification settings into the recipe.yaml of an existing run; returns one line per change.

    They change no weight, and certifications that have started keep theirs. More images than exist are refused.
    """
    path = folder / RECIPE
    kept = _kept_recipe(path) if path.is_file() else None
    if kept is None or kept.certify == recipe.certify or kept.identity != pinned(recipe).identity:
        return []
    subsets = [(settings.examples, settings.every) for settings in (kept.certify, recipe.certify)]
    if subsets[0] != subsets[1] and not recipe.at_most:
        check_subset(open_benchmark(recipe.data, torch.device("cpu")), recipe.certify)
    write_whole(path, replace(kept, certify=recipe.certify).to_yaml())
    before, after = asdict(kept.certify), asdict(recipe.certify)
    return [
        f"certify.{name} is now {after[name]}, was {before[name]}; a certification that has started keeps the old value"
        for name in after
        if after[name] != before[name]
    ]


def recipe_to_resume(folder: Path, recipe: Recipe) -> tuple[Recipe, dict[str, str | None]]:
    """The recipe that an unfinished run started with, and the new places of its data if that was moved."""
    path = folder / RECIPE
    kept = _kept_recipe(path).data if path.is_file() and not (folder / MODEL).exists() else recipe.data
    now = {place: getattr(recipe.data, place) for place in PLACES}
    moved = {place: path for place, path in now.items() if path != getattr(kept, place)}
    if not moved or kept.kind != recipe.data.kind:
        return recipe, {}
    begun = replace(recipe, data=recipe.data.at({place: getattr(kept, place) for place in moved}))
    return (begun, moved) if pinned(begun).identity == _kept_recipe(path).identity else (recipe, {})


def describe(folder: Path, benchmark: Benchmark, device: torch.device, moments: Moments | None = None) -> None:
    """Write what a report needs to know about the benchmark, and the environment of the run.

    moments are those of the training inputs, if the training computed them.
    """
    about = {"title": benchmark.title, "class_names": list(benchmark.class_names), "shape": list(benchmark.shape)}
    measured = {} if moments is None else {"mean": moments[0], "std": moments[1]}
    write_whole(folder / BENCHMARK, json.dumps(about | measured))
    write_environment(folder, device)


def check_data(folder: Path, benchmark: Benchmark, moments: Moments | None) -> None:
    """Refuse to resume a training on other data than it was started with, wherever that data is.

    Other images are recognised by the mean and standard deviation of the training inputs.
    """
    if not (folder / BENCHMARK).is_file():
        return
    about = read_about(folder)
    same = (tuple(map(shown_name, benchmark.class_names)), benchmark.shape) == (about.class_names, about.shape)
    if same and moments is not None and about.moments is not None:
        same = np.allclose(moments, about.moments, rtol=0, atol=NEAR)
    if not same:
        raise DataError(
            f"{folder} was started on other images than those of {benchmark.title}; give the place of its own images "
            "(--data.root PATH), or choose another folder with --out"
        )


def load(
    folder: str | Path, *, device: str | torch.device = "cpu", classifier: str | None = None
) -> SmoothedClassifier:
    """The smoothed classifier, in eval mode, from a run folder of `ars train`, or a pretrained one such as "digits".

    If there is no such folder, "user/name" is a repository of the Hugging Face Hub that ars.push made. It is the model
    that `ars certify` certifies; pass it to ars.certify or ars.predict. If the run was trained around your own
    classifier, name it again (package:name): code that a folder names is never imported on its own. The data is needed
    only for Sukenik et al.'s noise, which is measured from training images.
    """
    path = find_run(Path(folder).expanduser())
    run = fetch(str(folder)) if is_repository(path) else path
    model = load_without_data(run, torch.device(device), classifier=classifier)[1]
    model.run_folder = run  # type: ignore[assignment]  # where save and push find what describes the model
    return model


def is_repository(path: Path) -> bool:
    """Whether a path can only be a name on the Hub: user/name, with no such folder here, nor a folder user."""
    return len(path.parts) == 2 and not path.is_absolute() and not path.parent.exists()


def fetch(repository: str) -> Path:
    """Download what a model is loaded from, or find it in the cache of huggingface_hub."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, allow_patterns=[RECIPE, BENCHMARK, MODEL]))
    except Exception as error:  # of the network, or of the name
        first = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        raise RecipeError(
            f"there is no run folder at {repository}, and the Hugging Face Hub gave none of that name ({first})"
        ) from error
