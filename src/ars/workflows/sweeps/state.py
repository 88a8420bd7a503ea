"""The remaining work of a cell, from the files in its folder; loads no torch."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ars.certification.settings import CertifySettings
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Recipe, RecipeError, elsewhere, first_difference
from ars.runs.paths import CHECKPOINT, LOG, MAIN, MASKS, MODEL, RECIPE, TIMING, VOTE, digest_of, records_folder
from ars.runs.provenance import begun_settings
from ars.runs.records import RecordError
from ars.runs.shards import IncompleteError, Layout, read_certification, read_manifest
from ars.runs.vote_count import read_tally
from ars.tensors import read_header
from ars.workflows.request import Request
from ars.workflows.sweeps.file import Cell, portable

if TYPE_CHECKING:
    from ars.data.benchmark import Opener


@dataclass(frozen=True)
class Left:
    """The remaining work of a cell: epochs of training, rounding, images to certify, the vote, masks."""

    train: bool = False
    epochs: int = 0
    rounding: bool = False
    images: int = 0
    vote: bool = False
    masks: bool = False
    at_most: bool = False
    """Whether there may be fewer images to certify, as in the user's own folder that was not opened yet."""
    max_steps: int | None = None
    """The step at which training ends, if it gets that far."""

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return not (self.train or self.rounding or self.images or self.vote or self.masks)

    def __str__(self) -> str:
        epochs = f"{self.epochs} epochs"
        training = f"to step {self.max_steps} (at most {epochs})" if self.max_steps else epochs
        steps = {
            f"train {training}": self.train,
            "round": self.rounding and not self.train,
            f"certify {'up to ' if self.at_most else ''}{self.images} images": self.images,
            "vote": self.vote,
            "masks": self.masks,
        }
        return ", ".join(step for step, is_left in steps.items() if is_left) or "done"


def remaining_work(cell: Cell, folder: Path) -> Left:
    """Inspect a cell's folder; a folder with another recipe or records of other settings is refused."""
    wanted = cell.recipe
    check_recipe(folder, wanted, "another folder with --out")
    settings = cell_settings(cell, folder)
    masked = wanted.masked
    unknown = wanted.at_most and read_manifest(records_folder(folder, MAIN)) is None
    if not (folder / MODEL).exists():
        return Left(
            train=True,
            epochs=max(0, wanted.train.epochs - epochs_done(folder)),
            rounding=cell.weights == "bf16",
            images=settings.examples,
            vote=cell.vote > 0,
            masks=masked,
            at_most=unknown,
            max_steps=wanted.train.max_steps,
        )
    _check_weights(folder)
    rounded = is_rounded(folder / MODEL)
    if rounded and cell.weights == "float32":
        raise RecipeError(f"{folder} holds weights that were rounded to bf16; choose another folder with --out")
    manifest = read_manifest(records_folder(folder, MAIN))
    answered = manifest is not None or read_tally(folder) is not None
    if cell.weights == "bf16" and not rounded and answered:
        raise RecordError(
            f"{folder} holds results of weights that were not rounded to bf16, as the sweep requires; choose another "
            f"folder with --out, or remove {records_folder(folder, MAIN)} and {VOTE}"
        )
    return Left(
        rounding=cell.weights == "bf16" and not rounded,
        images=_missing(folder, settings),
        vote=cell.vote > 0 and not _voted(cell, folder),
        masks=masked and not (folder / MASKS).exists(),
        at_most=unknown,
    )


def is_packed(cell: Cell, folder: Path) -> bool:
    """Whether a cell is completely packed in a folder; a folder with another recipe or settings is refused."""
    if not (folder / RECIPE).exists():
        return False
    check_recipe(folder, portable(cell.recipe), "other results")
    parts = (TIMING, *([MASKS] if cell.recipe.masked else []), *([MODEL] if cell.keep_weights else []))
    complete = all((folder / part).exists() for part in parts) and (not cell.vote or _voted(cell, folder))
    return complete and not _missing(folder, cell_settings(cell, folder))


def check_recipe(folder: Path, wanted: Recipe, instead: str) -> None:
    """Refuse a folder that holds a run of another recipe, or one that started from other classifier weights."""
    if not (folder / RECIPE).exists():
        return
    begun = _begun_recipe(folder)
    pin = wanted.classifier.sha256 or begun.classifier.sha256
    wanted = replace(wanted, classifier=replace(wanted.classifier, sha256=pin))
    if begun.identity != wanted.identity:
        where = first_difference(begun, wanted)
        if elsewhere(begun, wanted):
            moved = "if that is the same data, leave the recipe as it was and give --data.root or --data.backgrounds"
            raise RecipeError(f"{folder} holds a run on data elsewhere{where}; {moved}, else choose {instead}")
        raise RecipeError(f"{folder} holds a run of another recipe{where}; remove it, or choose {instead}")


def _begun_recipe(folder: Path) -> Recipe:
    try:
        return read_recipe(folder / RECIPE)
    except RecipeError as error:
        raise RecipeError(f"{error}: another version made this run; remove {folder} to make it again") from error


def cell_settings(cell: Cell, folder: Path) -> CertifySettings:
    """How the cell is certified; a begun certification keeps its precision, also on another machine.

    If the user's own folder has fewer test images than the sweep asks for, the manifest has their number.
    """
    wanted = cell.recipe.certify
    try:
        begun = begun_settings(folder, MAIN)
    except RecordError as error:
        raise RecordError(f"{error}; for a sweep, remove {records_folder(folder, MAIN)}") from error
    if begun is None:
        return wanted
    if wanted.precision == "auto":
        wanted = replace(wanted, precision=begun.precision)
    for name, value in asdict(replace(wanted, examples=begun.examples)).items():
        if (have := getattr(begun, name)) != value:
            raise RecordError(
                f"{records_folder(folder, MAIN)} holds records with {name}={have}, but the sweep says {value}; "
                "choose another folder with --out, or remove that one"
            )
    manifest = read_manifest(records_folder(folder, MAIN))
    images = manifest.images if manifest else ()
    return cell_request(cell, folder, wanted).settings_for(int(images[0])) if images else wanted


def cell_request(cell: Cell, folder: Path, settings: CertifySettings, open_data: "Opener | None" = None) -> Request:
    """The request to certify a cell; for the user's own folder, the number of images is a limit."""
    return Request(folder, settings, at_most=cell.recipe.at_most, open_data=open_data)


def is_rounded(path: Path) -> bool:
    """Whether the weights of a run were rounded to bf16."""
    return "weights" in read_header(path, advice="remove it to train again")


def epochs_done(folder: Path) -> int:
    """About how many epochs of training need not be repeated: none before the first checkpoint."""
    log = folder / LOG
    kept = (folder / CHECKPOINT).exists() and log.exists()
    return len(log.read_text(encoding="utf-8").splitlines()) if kept else 0


def _missing(folder: Path, settings: CertifySettings) -> int:
    try:
        done = {
            record.certificate.index
            for record in read_certification(records_folder(folder, MAIN), partial=True).records
        }
    except IncompleteError:
        done = set()
    return sum(index not in done for index in Layout(settings.examples, settings.every).indices)


def _check_weights(folder: Path) -> None:
    """Refuse records of weights that no longer exist, for example after the model was removed and trained again."""
    manifest = read_manifest(records_folder(folder, MAIN))
    if manifest is not None and manifest.weights and manifest.weights != digest_of(folder / MODEL):
        raise RecordError(
            f"{folder} holds records of other weights than those of its {MODEL}; remove {records_folder(folder, MAIN)} "
            f"and {VOTE} to certify these, or put the old {MODEL} back"
        )


def _voted(cell: Cell, folder: Path) -> bool:
    manifest, tally = read_manifest(records_folder(folder, MAIN)), read_tally(folder)
    return manifest is not None and tally is not None and (tally.draws, tally.model) == (cell.vote, manifest.model)
