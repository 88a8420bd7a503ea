"""ars train: from a recipe to a trained run folder."""

import argparse
from pathlib import Path

from ars.cli.interrupt import stoppable
from ars.cli.options import Override, Subparsers, add_command, add_device
from ars.cli.training_view import training_view
from ars.experiments.recipe import Recipe, read_recipe, recipe_keys, recipe_parser
from ars.experiments.world import read_team

TEACH = """\
Train a smoothed classifier from a YAML recipe into a run folder. An interrupted run goes on where it was.

  ars train recipes/digits.yaml --out runs/ars
  ars train recipes/digits.yaml --out runs/cohen --method cohen --sigma 1.0 --train.epochs 30

Several GPUs or machines train one run together; the batch size stays that of all of them:

  torchrun --nproc-per-node 8 -m ars.cli train recipes/digits.yaml --out runs/ars

Every key of the recipe can be overridden with its dotted name; unknown keys are refused.
'ars train --keys' lists them all.
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "train", run, summary="train a model from a recipe", teach=TEACH)
    parser.add_argument("recipe", type=Path, nargs="?", help="the YAML recipe (without one: the demo's)")
    parser.add_argument("--out", type=Path, metavar="RUN", help="the run folder to make or to go on with")
    parser.add_argument("--keys", action="store_true", help="list every key of a recipe and exit")
    add_device(parser)
    for key in recipe_keys(Recipe()):  # listed by --keys
        parser.add_argument(f"--{key}", dest="overrides", action=Override, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Train, showing progress."""
    if options.keys:
        print(recipe_parser().format_help())
        return 0
    if options.out is None:
        raise ValueError("say where the run goes: --out RUN")
    train_with_progress(read_recipe(options.recipe, options.overrides or []), options.out, options.device)
    return 0


def train_with_progress(recipe: Recipe, folder: Path, device_name: str) -> None:
    """Train with a live view; of several processes, the first shows it."""
    from ars.experiments.device import choose_device
    from ars.experiments.run import train_run
    from ars.experiments.team import open_ranks
    from ars.experiments.tensorboard import scalars
    from ars.training.loop import Interrupted, Progress

    world = read_team()
    device = choose_device(device_name, world.local)
    view = training_view(str(folder), bar=world.rank == 0)
    with stoppable() as stop, open_ranks(world, device) as ranks, scalars(folder) as write, view as show:

        def report(at: Progress) -> None:
            show.report(at)
            write(at)

        try:
            trained = train_run(recipe, folder, device=device, report=report, watch=show.watch, stop=stop, ranks=ranks)
        except Interrupted:
            if not ranks.first:
                raise SystemExit(130) from None  # the first speaks for all
            raise KeyboardInterrupt from None
        if ranks.first and not trained:
            show.say("trained already")
