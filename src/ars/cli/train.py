"""ars train: from a recipe to a trained run folder."""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ars.certification.run_folder import CHECKPOINT, MODEL
from ars.cli.interrupt import stoppable
from ars.cli.options import Override, Subparsers, add_command, add_device
from ars.cli.training_view import describe_epoch, training_view
from ars.experiments.recipe import Recipe, cell_name
from ars.experiments.recipe_file import read_recipe, recipe_keys, source_sigma
from ars.experiments.recipe_help import list_keys
from ars.experiments.starting import start_of
from ars.experiments.world import read_team

TEACH = """\
Train a smoothed classifier from a YAML recipe into a run folder. An interrupted run goes on where it was.

  ars train recipes/digits.yaml --out runs/ars
  ars train recipes/digits.yaml --out runs/noisier --method cohen --sigma 1.0 --train.epochs 30
  ars train recipes/cifar_backgrounds.yaml --method adaptive --k 64 --sigma 0.5 --seed 1

Several GPUs or machines train one run together; the batch size stays that of all of them:

  torchrun --nproc-per-node 8 -m ars.cli train recipes/digits.yaml --out runs/ars

Every key of the recipe can be overridden with its dotted name; unknown keys are refused.
'ars train --keys' lists them all. --k is short for --data.size. Without --out the run goes to
runs/RECIPE-METHOD-kK-sSIGMA-seedSEED.

A mask around a classifier of your own, which was trained under noise and stays as it is:

  ars train recipes/digits.yaml --out runs/mine --classifier my_package:factory --weights my.safetensors --freeze
  ars train recipes/digits.yaml --out runs/ours --classifier.from_run runs/cohen --freeze

factory is a module or a function that returns one, images in [0, 1] to logits; the recipe's sigma is the noise that
the mask and it are certified with.
"""
SHORT = {
    "k": ("data.size", "K", "side of an input, k of the paper: short for --data.size"),
    "classifier": ("classifier.factory", "PACKAGE:NAME", "a classifier of your own: short for --classifier.factory"),
    "weights": ("classifier.weights", "FILE", "its state dict as safetensors: short for --classifier.weights"),
}
MEASURING = "measuring the distances between training images first, which may take minutes; Ctrl-C ends it at once"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "train", run, summary="train a model from a recipe", teach=TEACH, goes_on=True)
    parser.add_argument("recipe", type=Path, nargs="?", help="the YAML recipe (without one: the demo's)")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run folder to make or to go on with")
    for name, (key, metavar, meaning) in SHORT.items():
        parser.add_argument(f"--{name}", dest="overrides", action=Override, key=key, metavar=metavar, help=meaning)
    parser.add_argument(
        "--freeze",
        dest="overrides",
        action=Override,
        key="classifier.freeze",
        nargs=0,
        help="train only the mask, the classifier stays as it is: short for --classifier.freeze true",
    )
    parser.set_defaults(known="ars train --keys")
    parser.add_argument("--keys", action="store_true", help="list every key of a recipe and exit")
    add_device(parser)
    for key in recipe_keys(Recipe()):  # listed by --keys
        parser.add_argument(f"--{key}", dest="overrides", action=Override, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Train, showing progress."""
    if options.keys:
        print(list_keys())
        return 0
    recipe = read_recipe(options.recipe, options.overrides or [])
    recipe = replace(recipe, data=recipe.data.absolute())  # other commands may be given elsewhere
    folder, first = options.out, read_team().rank == 0
    if folder is None:
        if options.recipe is None:
            raise ValueError("say where the run goes: --out RUN")
        folder = usual_folder(options.recipe.stem, recipe)
        if first:
            print(f"the run goes to {folder}; another place: --out RUN")
    from ars.experiments.keeping import moved_data
    from ars.experiments.run import as_begun, keep_certification

    recipe, moved = as_begun(folder, recipe)
    if first:
        for place, path in moved.items():
            print(f"{folder}: goes on with data.{place} from {path or 'ARS_DATA'}, as it was moved", file=sys.stderr)
        for doubt in doubts(recipe):
            print(doubt, file=sys.stderr)
        for change in keep_certification(folder, recipe):
            print(f"{folder}: {change}", file=sys.stderr)
    with moved_data(moved):
        train_with_progress(recipe, folder, options.device)
    if first:
        print(f"the model is in {folder / MODEL}; what comes next: {next_command(folder, recipe, moved)}")
    return 0


def next_command(folder: Path, recipe: Recipe, moved: Mapping[str, str | None]) -> str:
    """The command that certifies what was trained; moved is where its data lies now, if not where its recipe says.

    >>> next_command(Path("my runs/ars"), Recipe(), {})
    "ars certify 'my runs/ars'"
    >>> next_command(Path("runs/ars"), Recipe(), {"root": "/new"})
    'ars certify runs/ars --data.root /new'
    """
    given = {"--classifier": recipe.classifier.factory} | {f"--data.{place}": path for place, path in moved.items()}
    options = [text for option, value in given.items() if value for text in (option, value)]
    return shlex.join(["ars", "certify", str(folder), *options])


def doubts(recipe: Recipe) -> Iterator[str]:
    """What a recipe may not have been meant to do."""
    if recipe.train.mask_only_epochs and not recipe.classifier.trained and start_of(recipe) is None:
        yield (
            f"the first {recipe.train.mask_only_epochs} epochs fit the mask to an untrained classifier; "
            "start from a trained one with --classifier.from_run RUN"
        )
    if recipe.classifier.from_run is None:
        return
    source = Path(recipe.classifier.from_run).expanduser()
    if not (source / MODEL).exists() and (source / CHECKPOINT).exists():
        yield f"{source} was not trained to the end; the classifier is that of its last checkpoint"
    if (sigma := source_sigma(recipe)) not in (None, recipe.sigma):
        yield (
            f"the classifier of {source} was trained at sigma = {sigma:g} and gets {recipe.sigma:g} here; "
            "unless that is meant, name one of the same noise: --classifier.from_run RUN"
        )


def usual_folder(stem: str, recipe: Recipe) -> Path:
    """Where the run of a recipe's cell goes when nothing else is said.

    >>> usual_folder("digits", Recipe()).as_posix()
    'runs/digits-adaptive-s0.75-seed0'
    """
    name = cell_name(recipe.method, recipe.data.options.get("size"), recipe.sigma, recipe.seed)
    return Path("runs") / f"{stem}-{name}"


def train_with_progress(
    recipe: Recipe,
    folder: Path,
    device_name: str,
    *,
    enough: Callable[[], bool] = lambda: False,
    starts: Path | None = None,
) -> None:
    """Train with a live view; of several processes, the first shows it. enough is asked for as Ctrl-C is."""
    import torch

    from ars.experiments.device import choose_device
    from ars.experiments.team import open_ranks
    from ars.experiments.tensorboard import scalars
    from ars.experiments.training import train_run
    from ars.training.loop import Interrupted
    from ars.training.progress import Progress

    world = read_team()
    device = choose_device(device_name, world.local)
    view = training_view(str(folder), bar=world.rank == 0)
    alone = world.size == 1
    with stoppable(at_once=alone) as stop, open_ranks(world, device) as ranks, scalars(folder) as write, view as show:
        if recipe.method == "sukenik" and ranks.first and not (folder / MODEL).exists():
            show.say(MEASURING)

        def report(at: Progress) -> None:
            show.report(at)
            write(at)

        try:
            trained = train_run(
                recipe,
                folder,
                device=device,
                report=report,
                report_start=lambda start, at: show.say(f"start, size {start.data.size}, {describe_epoch(at)}"),
                watch=show.watch,
                stop=lambda: stop() or enough(),
                starts=starts,
                ranks=ranks,
            )
        except Interrupted:
            if not ranks.first:
                raise SystemExit(130) from None  # the first speaks for all
            raise KeyboardInterrupt from None
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"the memory of {device} is full; raise train.accumulate, which is {recipe.train.accumulate}, or lower "
                f"train.batch_size, which is {recipe.train.batch_size}, and train into another folder"
            ) from error
        if ranks.first and not trained:
            show.say("trained already")
