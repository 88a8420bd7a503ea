"""Run folders: a recipe, its trained model, its records; each step goes on where it was interrupted.

Training writes recipe.yaml, benchmark.json, environment.json, train.jsonl, checkpoint.safetensors while it lasts,
timing.json, masks/, tensorboard/, start/ and model.safetensors. Certification adds certify/<name>/ with settings.json,
environment.json, shard-*.jsonl and stages.npz (ars.experiments.certifying), the vote vote.json and, until it is done,
vote-begun.json (ars.experiments.voting), a sweep masks.npz and pipeline.svg (ars.experiments.sweeps.masks).
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from ars.certification.run_folder import BENCHMARK, CHECKPOINT, MODEL, RECIPE, START
from ars.certification.writing import remove_stale, write_whole
from ars.data.benchmark import Benchmark
from ars.experiments.borrowing import load_classifier, pinned, take_start
from ars.experiments.build import build_benchmark, build_model
from ars.experiments.device import choose_precision
from ars.experiments.environment import write_environment
from ars.experiments.importing import check_fit
from ars.experiments.pictures import draw_epoch
from ars.experiments.recipe import Recipe, RecipeError, read_recipe
from ars.experiments.starting import begun_as_start, start_folder, start_of, starts_of
from ars.experiments.timing import train_seconds, write_train_seconds
from ars.methods.adaptive import settled
from ars.smoothing import SmoothedClassifier
from ars.training.checkpoint import check_whole, load_model, load_tensors, save_tensors
from ars.training.freezing import freeze_classifier
from ars.training.loop import Trainer
from ars.training.progress import Progress, Standing
from ars.training.ranks import Ranks


def train_run(
    recipe: Recipe,
    folder: Path,
    *,
    device: torch.device,
    report: Callable[[Progress], None] = lambda progress: None,
    report_start: Callable[[Recipe, Progress], None] = lambda start, progress: None,
    watch: Callable[[Standing], None] = lambda standing: None,
    stop: Callable[[], bool] = lambda: False,
    starts: Path | None = None,
    ranks: Ranks | None = None,
) -> bool:
    """Train the recipe into the folder, or go on there; False where that was done already.

    Whatever the recipe asks for in vain is refused before anything is written. A recipe with a start trains it first,
    into a run folder within this one or, for runs that begin alike, within starts; report_start hears of its epochs.
    Several processes that train together see the same folder, of which only the first writes.
    """
    ranks = ranks or Ranks()
    ranks.check(recipe.train)
    recipe = pinned(recipe)
    if starts == folder.parent and (begun := begun_as_start(recipe, folder)):
        begun.rename(folder)  # at once and whole
        write_whole(folder / RECIPE, recipe.to_yaml())
    _check_folder(folder, recipe)
    trained = (folder / MODEL).exists()
    if trained:
        check_whole(folder / MODEL)
    ranks.wait()  # until all have looked, none writes
    if trained:
        return False
    benchmark = build_benchmark(recipe, device)
    model = build_model(recipe, benchmark, device)
    load_classifier(model, recipe)
    if recipe.classifier.freeze:
        freeze_classifier(model)
    _check_model(recipe, model, benchmark, device)
    start, start_seconds = start_of(recipe), 0.0
    if start is not None and not (folder / CHECKPOINT).exists():  # which has all that came of it
        _check_starts(recipe, folder, device, starts)
        if ranks.first:
            _claim(folder, recipe)
        begun = folder / START if starts is None else start_folder(starts, start)
        train_run(
            start,
            begun,
            device=device,
            report=partial(report_start, start),
            report_start=report_start,
            watch=watch,
            stop=stop,
            starts=starts,
            ranks=ranks,
        )
        take_start(model, begun / MODEL)
        start_seconds = train_seconds(begun) or 0.0
    trainer = Trainer(
        model,
        benchmark,
        recipe.train,
        seed=recipe.seed,
        precision=choose_precision(recipe.train.precision, device),
        folder=folder,
        identity=recipe.identity,
        norm=recipe.certify.norm,
        ranks=ranks,
        spent=start_seconds,
    )
    if ranks.first:
        _claim(folder, recipe)
        describe(folder, benchmark, device)

    def after_epoch(progress: Progress) -> None:
        report(progress)
        if recipe.train.pictures_every and progress.epoch % recipe.train.pictures_every == 0:
            about = (
                f"{folder.name}, epoch {progress.epoch} of {progress.epochs}: validation accuracy "
                f"{progress.validation_accuracy:.1%}, mean squared mask {progress.mean_square_mask:.2f}"
            )
            draw_epoch(folder, trainer.evaluated, benchmark, epoch=progress.epoch, heading=about)

    trainer.run(report=after_epoch, watch=watch, stop=stop)
    if ranks.first:
        write_train_seconds(folder, trainer.seconds)
        save_tensors(folder / MODEL, model.state_dict(), {"identity": recipe.identity})
        (folder / CHECKPOINT).unlink(missing_ok=True)
        (folder / START / MODEL).unlink(missing_ok=True)
    ranks.wait()
    return True


def _check_starts(recipe: Recipe, folder: Path, device: torch.device, starts: Path | None) -> None:
    """Of the starts that are to be trained yet: their images can be had, and the models take them."""
    for before in starts_of(recipe):
        folder = folder / START if starts is None else start_folder(starts, before)
        if (folder / MODEL).exists():
            return
        images = build_benchmark(before, device)
        _check_model(before, build_model(before, images, device), images, device)


def _check_model(recipe: Recipe, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
    name = recipe.classifier.factory or f"the model ({recipe.method})"
    check_fit(name, model, benchmark, device, split="validation", trains=True)


def load_run(
    folder: Path, device: torch.device, *, classifier: str | None = None
) -> tuple[Recipe, Benchmark, SmoothedClassifier]:
    """The recipe, benchmark and trained model of a run folder; a learned split is plain numbers from here on.

    Code that a folder names is never imported unasked: a classifier that was imported for training is named again.
    """
    if not (folder / RECIPE).is_file():
        raise RecipeError(f"{folder} is not a run folder: it has no {RECIPE}; make one with ars train")
    recipe = _with_classifier(read_recipe(folder / RECIPE), classifier, folder)
    tensors, _ = load_tensors(folder / MODEL)
    benchmark = build_benchmark(recipe, device)
    model = build_model(recipe, benchmark, device)
    load_model(model, tensors, folder / MODEL)
    return recipe, benchmark, settled(model).eval()


def _with_classifier(recipe: Recipe, classifier: str | None, folder: Path) -> Recipe:
    factory = recipe.classifier.factory
    if factory is not None and classifier is None:
        raise RecipeError(f"{folder} was trained around a classifier of your own; give --classifier {factory} again")
    if factory is None and classifier is not None:
        raise RecipeError(f"{folder} has a classifier of its own, trained here; leave --classifier out")
    return replace(recipe, classifier=replace(recipe.classifier, factory=classifier))


def _check_folder(folder: Path, recipe: Recipe) -> None:
    """Refuse a folder that holds another recipe or something else."""
    path = folder / RECIPE
    if path.exists():
        if read_recipe(path).identity != recipe.identity:
            raise RecipeError(f"{folder} holds a run of another recipe; choose another folder with --out")
    # a killed process may have left a hidden file on its way to recipe.yaml
    elif folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise RecipeError(f"{folder} exists and is not a run folder; choose another folder with --out")


def keep_certification(folder: Path, recipe: Recipe) -> list[str]:
    """Put the recipe's certification into the recipe.yaml of a run that was begun with another; what is changed.

    It decides no weight, and certifications that are begun keep their own.
    """
    path = folder / RECIPE
    kept = read_recipe(path) if path.is_file() else None
    if kept is None or kept.certify == recipe.certify or kept.identity != pinned(recipe).identity:
        return []
    write_whole(path, replace(kept, certify=recipe.certify).to_yaml())
    before, after = asdict(kept.certify), asdict(recipe.certify)
    return [
        f"certify.{name} is {after[name]} from now on, was {before[name]}; a certification that is begun keeps its own"
        for name in after
        if after[name] != before[name]
    ]


def _claim(folder: Path, recipe: Recipe) -> None:
    """Write the recipe into a new folder, and clear away what a killed process left half-written."""
    remove_stale(folder)
    if not (folder / RECIPE).exists():
        write_whole(folder / RECIPE, recipe.to_yaml())


def describe(folder: Path, benchmark: Benchmark, device: torch.device) -> None:
    """Write what the report needs to know of the benchmark, and what the run was made with."""
    about = {"title": benchmark.title, "class_names": list(benchmark.class_names), "shape": list(benchmark.shape)}
    write_whole(folder / BENCHMARK, json.dumps(about))
    write_environment(folder, device)
