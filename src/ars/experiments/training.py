"""Training the recipe of a run into its folder, after its start where it has one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from ars.certification.run_folder import CHECKPOINT, MODEL, RECIPE, START
from ars.certification.writing import write_whole
from ars.data.benchmark import Benchmark
from ars.data.moments import Moments
from ars.experiments.alone import TakenError, alone_in
from ars.experiments.borrowing import load_classifier, pinned, take_start
from ars.experiments.build import build_benchmark, build_model
from ars.experiments.certifiable import check_certifiable, check_subset
from ars.experiments.device import choose_precision
from ars.experiments.importing import check_fit
from ars.experiments.pictures import draw_epoch
from ars.experiments.recipe import Recipe
from ars.experiments.run import check_data, check_folder, claim, describe
from ars.experiments.starting import begun_as_start, start_folder, start_of, starts_of
from ars.experiments.timing import train_seconds, write_train_seconds
from ars.smoothing import SmoothedClassifier
from ars.training.checkpoint import check_whole, save_tensors
from ars.training.freezing import freeze_classifier
from ars.training.loop import Trainer, check_batch
from ars.training.progress import Progress, Standing
from ars.training.ranks import Ranks


@dataclass(frozen=True)
class _Session:
    """What a run and its starts have in common: where they train, who hears of it, who ends it."""

    device: torch.device
    report_start: Callable[[Recipe, Progress], None]
    watch: Callable[[Standing], None]
    stop: Callable[[], bool]
    starts: Path | None
    ranks: Ranks

    def folder_of(self, start: Recipe, folder: Path) -> Path:
        """Where the start of the run in a folder is trained."""
        return folder / START if self.starts is None else start_folder(self.starts, start)


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
    return _train(recipe, folder, report, _Session(device, report_start, watch, stop, starts, ranks or Ranks()))


def _train(recipe: Recipe, folder: Path, report: Callable[[Progress], None], session: _Session) -> bool:
    device, ranks = session.device, session.ranks
    ranks.check(recipe.train)
    recipe = pinned(recipe)
    if session.starts == folder.parent:
        _take_over(recipe, folder)
    if _is_trained(recipe, folder, ranks):
        return False
    benchmark = build_benchmark(recipe, device)
    model = _untrained(recipe, benchmark, device)
    check_batch(benchmark, recipe.train)
    check_data(folder, benchmark, _moments(recipe, benchmark))
    if not (folder / CHECKPOINT).exists():
        _check_starts(recipe, folder, session)
    with _alone(folder, ranks):
        check_folder(folder, recipe)  # once more: what another process made of it meanwhile
        if (folder / MODEL).exists():
            return False
        _train_alone(model, benchmark, recipe, folder, report, session)
    return True


@contextmanager
def _alone(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Hold the folder for these processes, of which the first does; all are refused while others train there."""
    with ExitStack() as held:
        taken: TakenError | None = None
        try:
            if ranks.first:
                held.enter_context(alone_in(folder, "train"))
        except TakenError as error:
            taken = error
        if any(refused for (refused,) in ranks.gather([taken is not None])):
            raise taken or TakenError(f"{folder} is taken, as the first process says")
        yield


def _train_alone(
    model: SmoothedClassifier,
    benchmark: Benchmark,
    recipe: Recipe,
    folder: Path,
    report: Callable[[Progress], None],
    session: _Session,
) -> None:
    """Train a model that was checked, in a folder that is held; its start before it."""
    device, ranks = session.device, session.ranks
    spent = _train_start(model, recipe, folder, session)
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
        spent=spent,
    )
    if ranks.first:
        claim(folder, recipe)
        describe(folder, benchmark, device, _moments(recipe, benchmark))

    def after_epoch(progress: Progress) -> None:
        report(progress)
        if recipe.train.pictures_every and progress.epoch % recipe.train.pictures_every == 0:
            _draw(folder, trainer.evaluated, benchmark, progress)

    trainer.run(report=after_epoch, watch=session.watch, stop=session.stop)
    if ranks.first:
        write_train_seconds(folder, trainer.seconds)
        _keep_model(model, recipe, folder)
    ranks.wait()


def _take_over(recipe: Recipe, folder: Path) -> None:
    """Make the folder of a cell from what was begun of it as the start of others."""
    begun = begun_as_start(recipe, folder)
    if begun is not None:
        with alone_in(begun, "train"):
            begun.rename(folder)  # at once and whole
        write_whole(folder / RECIPE, recipe.to_yaml())


def _is_trained(recipe: Recipe, folder: Path, ranks: Ranks) -> bool:
    """Whether the folder, which is this recipe's or new, holds the trained model."""
    check_folder(folder, recipe)
    trained = (folder / MODEL).exists()
    if trained:
        check_whole(folder / MODEL)
    ranks.wait()  # until all have looked, none writes
    return trained


def _untrained(recipe: Recipe, benchmark: Benchmark, device: torch.device) -> SmoothedClassifier:
    """The model as it begins, with the classifier that the recipe names; one that cannot be trained is refused."""
    model = build_model(recipe, benchmark, device)
    load_classifier(model, recipe)
    if recipe.classifier.freeze:
        freeze_classifier(model)
    _check_model(recipe, model, benchmark, device)
    check_certifiable(model, recipe.certify, benchmark.shape)
    if not recipe.at_most:
        check_subset(benchmark, recipe.certify)
    return model


def _train_start(model: SmoothedClassifier, recipe: Recipe, folder: Path, session: _Session) -> float:
    """Train what comes before, if anything does, and give the model its weights; the seconds that it took."""
    start = start_of(recipe)
    if start is None or (folder / CHECKPOINT).exists():  # which has all that came of it
        return 0.0
    if session.ranks.first:
        claim(folder, recipe)
    begun = session.folder_of(start, folder)
    _train(start, begun, partial(session.report_start, start), session)
    take_start(model, begun / MODEL)
    return train_seconds(begun) or 0.0


def _check_starts(recipe: Recipe, folder: Path, session: _Session) -> None:
    """Of the starts that are to be trained yet: their images can be had, and the models take them."""
    for before in starts_of(recipe):
        folder = session.folder_of(before, folder)
        if (folder / MODEL).exists():
            return
        images = build_benchmark(before, session.device)
        _check_model(before, build_model(before, images, session.device), images, session.device)


def _check_model(recipe: Recipe, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
    name = recipe.classifier.factory or f"the model ({recipe.method})"
    check_fit(name, model, benchmark, benchmark.examples("validation", [0])[0].to(device), trains=True)


def _moments(recipe: Recipe, benchmark: Benchmark) -> Moments | None:
    """Those of the training inputs, where the network's normalisation has asked for them already."""
    return benchmark.moments() if recipe.classifier.factory is None else None


def _draw(folder: Path, model: SmoothedClassifier, benchmark: Benchmark, at: Progress) -> None:
    """A picture of the masks after an epoch."""
    about = (
        f"{folder.name}, epoch {at.epoch} of {at.epochs}: validation accuracy {at.validation_accuracy:.1%}, "
        f"mean squared mask {at.mean_square_mask:.2f}"
    )
    draw_epoch(folder, model, benchmark, epoch=at.epoch, heading=about)


def _keep_model(model: SmoothedClassifier, recipe: Recipe, folder: Path) -> None:
    """Write the trained model, and clear away what it was trained from."""
    save_tensors(folder / MODEL, model.state_dict(), {"identity": recipe.identity})
    (folder / CHECKPOINT).unlink(missing_ok=True)
    (folder / START / MODEL).unlink(missing_ok=True)
