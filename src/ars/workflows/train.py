"""Training a recipe into a run folder, after its start if it has one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ars.atomic import write_whole
from ars.data.benchmark import Benchmark, Moments, Opener, open_benchmark
from ars.kernels.precision import choose_precision
from ars.recipes.build import build_model, check_certifiable, check_subset
from ars.recipes.recipe import Recipe
from ars.recipes.start_sizes import begun_as_start, start_folder, start_of, starts_of
from ars.recipes.user_code import check_fit
from ars.runs.lock import TakenError, locked
from ars.runs.paths import CHECKPOINT, MODEL, RECIPE, START
from ars.runs.run import train_seconds, write_train_seconds
from ars.smoothing import SmoothedClassifier
from ars.tensors import read_header, save_tensors
from ars.training.loop import Trainer, check_batch
from ars.training.progress import Progress, Standing
from ars.training.ranks import AcceleratedRanks, Ranks
from ars.workflows.load import check_data, check_folder, claim, describe
from ars.workflows.pictures import draw_epoch
from ars.workflows.processes import World
from ars.workflows.weights import load_classifier, load_start, pinned

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter

TENSORBOARD = "tensorboard"


@contextmanager
def open_ranks(world: World, device: torch.device) -> Iterator[Ranks]:
    """Yield this process's rank among those that torchrun started; a single process does not import Accelerate."""
    if world.size == 1:
        yield Ranks()
        return
    ranks = AcceleratedRanks(device)
    try:
        yield ranks
    finally:
        ranks.close()


@contextmanager
def scalars(folder: Path) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that writes each epoch to RUN/tensorboard; epochs that are repeated replace the old ones."""
    if find_spec("tensorboard") is None:
        yield lambda progress: None
        return
    with ExitStack() as open_files:
        writer: SummaryWriter | None = None

        def write(progress: Progress) -> None:
            nonlocal writer
            if writer is None:
                from torch.utils.tensorboard.writer import SummaryWriter

                made = SummaryWriter(str(folder / TENSORBOARD), purge_step=progress.epoch)
                writer = open_files.enter_context(made)
            for name, value in asdict(progress).items():
                if name not in ("epoch", "epochs", "steps") and value is not None:  # a one-step method has no share
                    writer.add_scalar(name, value, progress.epoch)
            writer.flush()

        yield write


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
    open_data: Opener = open_benchmark,
) -> bool:
    """Train the recipe into the folder, or resume there; False if it is already trained.

    A recipe that cannot be trained is refused before anything is written. The start of a recipe is trained first, into
    a run folder within this one, or within starts if several runs share it; report_start is called with its epochs.
    While another process trains the recipe or a start within starts, BusyError is raised.
    Processes that train together share the folder, and only the first writes to it.
    """
    session = _Session(device, report_start, watch, stop, starts, ranks or Ranks(), open_data)
    recipe = pinned(recipe)
    with session.training(recipe):
        session.check_free(recipe, folder)
        return session.train(recipe, folder, report)


@dataclass(frozen=True)
class _Session:
    """What a run and its starts share."""

    device: torch.device
    report_start: Callable[[Recipe, Progress], None]
    watch: Callable[[Standing], None]
    stop: Callable[[], bool]
    starts: Path | None
    ranks: Ranks
    open_data: Opener

    def training(self, recipe: Recipe) -> AbstractContextManager[None]:
        """Lock this training among the processes that share starts, whatever folder it is in."""
        return nullcontext() if self.starts is None else locked(self.starts, "train", of=recipe.identity)

    def check_free(self, recipe: Recipe, folder: Path) -> None:
        """Refuse early if another process trains a start that is needed."""
        if (folder / CHECKPOINT).exists() or (folder / MODEL).exists():
            return
        for start in starts_of(recipe):
            if (self._folder_of(start, folder) / MODEL).exists():
                return
            with self.training(start):
                pass

    def train(self, recipe: Recipe, folder: Path, report: Callable[[Progress], None]) -> bool:
        """Train the recipe into the folder, or resume there; False if it is already trained."""
        self.ranks.check(recipe.train)
        if self.starts == folder.parent:
            _take_over(recipe, folder)
        if _is_trained(recipe, folder, self.ranks):
            return False
        benchmark = self.open_data(recipe.data, self.device)
        model = _untrained(recipe, benchmark, self.device)
        check_batch(benchmark, recipe.train)
        check_data(folder, benchmark, _moments(recipe, benchmark))
        if not (folder / CHECKPOINT).exists():
            self._check_starts(recipe, folder)
        with _alone(folder, self.ranks):
            check_folder(folder, recipe)  # again: another process may have changed it meanwhile
            if (folder / MODEL).exists():
                return False
            self._train_alone(model, benchmark, recipe, folder, report)
        return True

    def _train_alone(
        self,
        model: SmoothedClassifier,
        benchmark: Benchmark,
        recipe: Recipe,
        folder: Path,
        report: Callable[[Progress], None],
    ) -> None:
        """Train a checked model in a locked folder, after its start."""
        spent = self._train_start(model, recipe, folder)
        trainer = Trainer(
            model,
            benchmark,
            recipe.train,
            seed=recipe.seed,
            precision=choose_precision(recipe.train.precision, self.device),
            folder=folder,
            identity=recipe.identity,
            norm=recipe.certify.norm,
            ranks=self.ranks,
            spent=spent,
        )
        if self.ranks.first:
            claim(folder, recipe)
            describe(folder, benchmark, self.device, _moments(recipe, benchmark))

        def after_epoch(progress: Progress) -> None:
            report(progress)
            if recipe.train.pictures_every and progress.epoch % recipe.train.pictures_every == 0:
                draw_epoch(folder, trainer.evaluated, benchmark, progress)

        trainer.run(report=after_epoch, watch=self.watch, stop=self.stop)
        if self.ranks.first:
            write_train_seconds(folder, trainer.seconds)
            _keep_model(model, recipe, folder)
        self.ranks.wait()

    def _train_start(self, model: SmoothedClassifier, recipe: Recipe, folder: Path) -> float:
        """Train the start, if there is one, and load its weights into the model; returns the seconds it took."""
        start = start_of(recipe)
        if start is None or (folder / CHECKPOINT).exists():  # a checkpoint already includes the start's weights
            return 0.0
        if self.ranks.first:
            claim(folder, recipe)
        with self.training(start):
            begun = self._folder_of(start, folder)
            self.train(start, begun, partial(self.report_start, start))
            load_start(model, begun / MODEL)
            return train_seconds(begun) or 0.0

    def _check_starts(self, recipe: Recipe, folder: Path) -> None:
        """Check the starts that are not trained yet: their data is available, and their models take the images."""
        for start in starts_of(recipe):
            folder = self._folder_of(start, folder)
            if (folder / MODEL).exists():
                return
            images = self.open_data(start.data, self.device)
            _check_model(start, build_model(start, images, self.device), images, self.device)

    def _folder_of(self, start: Recipe, folder: Path) -> Path:
        """Where the start of the run in this folder is trained."""
        return folder / START if self.starts is None else start_folder(self.starts, start)


@contextmanager
def _alone(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Lock the folder for these processes through the first one; all are refused while others train there."""
    with ExitStack() as held:
        taken: TakenError | None = None
        try:
            if ranks.first:
                held.enter_context(locked(folder, "train"))
        except TakenError as error:
            taken = error
        if any(refused for (refused,) in ranks.gather([taken is not None])):
            raise taken or TakenError(f"{folder} is taken; see the message of the first process")
        yield


def _take_over(recipe: Recipe, folder: Path) -> None:
    """Use the folder in which this cell was begun as the start of others."""
    begun = begun_as_start(recipe, folder)
    if begun is not None:
        with locked(begun, "train"):
            begun.rename(folder)  # atomic
        write_whole(folder / RECIPE, recipe.to_yaml())


def _is_trained(recipe: Recipe, folder: Path, ranks: Ranks) -> bool:
    """Whether the folder holds the trained model; refuses a folder of another recipe."""
    check_folder(folder, recipe)
    trained = (folder / MODEL).exists()
    if trained:
        read_header(folder / MODEL)  # refuses a damaged file
    ranks.wait()  # no process writes before all have checked
    return trained


def _untrained(recipe: Recipe, benchmark: Benchmark, device: torch.device) -> SmoothedClassifier:
    """The initial model, with the classifier that the recipe names; a model that cannot be trained is refused."""
    model = build_model(recipe, benchmark, device)
    load_classifier(model, recipe)
    if recipe.classifier.freeze:
        model.classifier.requires_grad_(False)
    _check_model(recipe, model, benchmark, device)
    check_certifiable(model, recipe.certify, benchmark.shape)
    if not recipe.at_most:
        check_subset(benchmark, recipe.certify)
    return model


def _check_model(recipe: Recipe, model: SmoothedClassifier, benchmark: Benchmark, device: torch.device) -> None:
    name = recipe.classifier.factory or f"the model ({recipe.method})"
    check_fit(name, model, benchmark, benchmark.examples("validation", [0])[0].to(device), trains=True)


def _moments(recipe: Recipe, benchmark: Benchmark) -> Moments | None:
    """The moments of the training inputs, if the network's normalisation has computed them already."""
    return benchmark.moments() if recipe.classifier.factory is None else None


def _keep_model(model: SmoothedClassifier, recipe: Recipe, folder: Path) -> None:
    """Write the trained model, and remove the checkpoint and the start's model."""
    save_tensors(folder / MODEL, model.state_dict(), {"identity": recipe.identity})
    (folder / CHECKPOINT).unlink(missing_ok=True)
    (folder / START / MODEL).unlink(missing_ok=True)
