"""ars train: from a recipe to a trained run folder."""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.errors import tell
from ars.cli.interrupt import stoppable
from ars.cli.options import Override, Subparsers, add_command, add_device
from ars.cli.views import describe_epoch, describe_step, open_view
from ars.recipes.keys import list_keys, recipe_keys
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Recipe, cell_name
from ars.recipes.start_sizes import start_of
from ars.runs.paths import CHECKPOINT, MODEL, RECIPE
from ars.workflows.processes import read_team

if TYPE_CHECKING:
    from ars.data.benchmark import Opener

TEACH = """\
Train a smoothed classifier from a YAML recipe into a run folder. An interrupted run resumes where it stopped.

  ars train digits --out runs/ars
  ars train digits --out runs/noisier --method cohen --sigma 1.0 --train.epochs 30
  ars train cifar_backgrounds --method adaptive --k 64 --sigma 0.5 --seed 1

Several GPUs or machines can train one run together. The batch size is that of all of them together:

  torchrun --nproc-per-node 8 -m ars train digits --out runs/ars

Every key of the recipe can be overridden by its dotted name; unknown keys are refused.
'ars train --keys' lists all keys. --k is short for --data.size. Without --out the run goes to
runs/RECIPE-METHOD-kK-sSIGMA-seedSEED.

Train a mask around your own classifier, which was trained under noise and stays as it is:

  ars train digits --out runs/mine --classifier my_package:factory --weights my.safetensors --freeze
  ars train digits --out runs/ours --classifier.from_run runs/cohen --freeze

factory is a module, or a function that returns one, from images in [0, 1] to logits. Mask and classifier are certified
with the noise of the recipe's sigma.
"""
SHORT = {
    "k": ("data.size", "K", "side of an input, the paper's k: short for --data.size"),
    "classifier": ("classifier.factory", "PACKAGE:NAME", "your own classifier: short for --classifier.factory"),
    "weights": ("classifier.weights", "FILE", "its state dict as safetensors: short for --classifier.weights"),
}
MEASURING = "measuring the distances between training images, which may take minutes; Ctrl-C stops it at once"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "train", run, summary="train a model from a recipe", teach=TEACH, resumable=True)
    parser.add_argument("recipe", type=Path, nargs="?", help="the YAML recipe (default: the demo's)")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run folder to create or continue")
    for name, (key, metavar, meaning) in SHORT.items():
        parser.add_argument(f"--{name}", dest="overrides", action=Override, key=key, metavar=metavar, help=meaning)
    parser.add_argument(
        "--freeze", dest="overrides", action=Override, key="classifier.freeze", nargs=0,
        help="train only the mask and keep the classifier as it is: short for --classifier.freeze true",
    )  # fmt: skip
    parser.set_defaults(known="ars train --keys")
    parser.add_argument("--keys", action="store_true", help="list every key of a recipe and exit")
    add_device(parser)
    for key in recipe_keys():  # listed by --keys
        parser.add_argument(f"--{key}", dest="overrides", action=Override, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Train, showing progress."""
    if options.keys:
        tell(list_keys())
        return 0
    recipe = read_recipe(options.recipe, options.overrides)
    recipe = replace(recipe, data=recipe.data.absolute())  # later commands may run in another folder
    folder, first = options.out, read_team().rank == 0
    if folder is None:
        if options.recipe is None:
            raise ValueError("name the run folder: --out RUN")
        cell = cell_name(recipe.method, recipe.data.options.get("size"), recipe.sigma, recipe.seed)
        folder = Path("runs") / f"{options.recipe.stem}-{cell}"
        if first:
            tell(f"the run goes to {folder}; choose another folder with --out RUN")
    from ars.data.benchmark import BenchmarkCache
    from ars.workflows.load import keep_certification, recipe_to_resume

    recipe, moved = recipe_to_resume(folder, recipe)
    if first:
        for place, path in moved.items():
            tell(f"{folder}: continues with data.{place} at its new place {path or 'ARS_DATA'}", file=sys.stderr)
        for doubt in recipe_warnings(recipe):
            tell(doubt, file=sys.stderr)
        for change in keep_certification(folder, recipe):
            tell(f"{folder}: {change}", file=sys.stderr)
    train_with_progress(recipe, folder, options.device, open_data=BenchmarkCache(moved))
    if first:
        tell(f"the model is in {folder / MODEL}; next: {next_command(folder, recipe, moved)}")
    return 0


def next_command(folder: Path, recipe: Recipe, moved: Mapping[str, str | None]) -> str:
    """The command that certifies the trained run; moved names the new places of data that was moved.

    >>> next_command(Path("my runs/ars"), Recipe(), {})
    "ars certify 'my runs/ars'"
    >>> next_command(Path("runs/ars"), Recipe(), {"root": "/new"})
    'ars certify runs/ars --data.root /new'
    """
    given = {"--classifier": recipe.classifier.factory} | {f"--data.{place}": path for place, path in moved.items()}
    options = [text for option, value in given.items() if value for text in (option, value)]
    return shlex.join(["ars", "certify", str(folder), *options])


def recipe_warnings(recipe: Recipe) -> Iterator[str]:
    """Warnings about settings that are allowed but probably not intended."""
    if recipe.train.mask_only_epochs and not recipe.classifier.trained and start_of(recipe) is None:
        yield (
            f"the first {recipe.train.mask_only_epochs} epochs fit the mask to an untrained classifier; "
            "start from a trained one with --classifier.from_run RUN"
        )
    if recipe.classifier.from_run is None:
        return
    source = Path(recipe.classifier.from_run).expanduser()
    if not (source / MODEL).exists() and (source / CHECKPOINT).exists():
        yield f"the training of {source} is not complete; its last checkpoint is used"
    path = source / RECIPE
    if path.is_file() and (sigma := read_recipe(path).sigma) != recipe.sigma:
        yield (
            f"the classifier of {source} was trained at sigma = {sigma:g} but gets {recipe.sigma:g} here; "
            "unless this is intended, use one trained at the same noise: --classifier.from_run RUN"
        )


def train_with_progress(
    recipe: Recipe,
    folder: Path,
    device_name: str,
    *,
    enough: Callable[[], bool] = lambda: False,
    starts: Path | None = None,
    open_data: "Opener | None" = None,
) -> None:
    """Train with a live view, shown by the first process only. Like Ctrl-C, enough stops at a safe point."""
    import torch

    from ars.data.benchmark import open_benchmark
    from ars.training.loop import Interrupted
    from ars.training.progress import Progress, Standing
    from ars.workflows.hardware import choose_device
    from ars.workflows.train import open_ranks, scalars, train_run

    world = read_team()
    device = choose_device(device_name, world.local)
    with (
        stoppable(at_once=world.size == 1) as stop,
        open_ranks(world, device) as ranks,
        scalars(folder) as write,
        open_view(str(folder), "starting", bar=world.rank == 0) as view,
    ):
        if recipe.method == "sukenik" and ranks.first and not (folder / MODEL).exists():
            view.say(MEASURING)

        def report(at: Progress) -> None:
            view.say(describe_epoch(at))
            write(at)

        def watch(at: Standing) -> None:
            text = describe_step(at)
            view.update(at.step, at.steps, f"step {at.step} of {at.steps}, {text}", text)

        try:
            trained = train_run(
                recipe,
                folder,
                device=device,
                report=report,
                report_start=lambda start, at: view.say(f"start, size {start.data.size}, {describe_epoch(at)}"),
                watch=watch,
                stop=lambda: stop() or enough(),
                starts=starts,
                ranks=ranks,
                open_data=open_data or open_benchmark,
            )
        except Interrupted:
            if not ranks.first:
                raise SystemExit(130) from None  # only the first process prints the message
            raise KeyboardInterrupt from None
        except torch.OutOfMemoryError as error:
            raise ValueError(
                f"{device} is out of memory; increase train.accumulate (now {recipe.train.accumulate}), or decrease "
                f"train.batch_size (now {recipe.train.batch_size}), and train into another folder"
            ) from error
        if ranks.first and not trained:
            view.say("already trained")
