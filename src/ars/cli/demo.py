"""ars demo: train, certify and compare on the embedded benchmark."""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ars.cli.certify import certify_with_progress
from ars.cli.errors import tell
from ars.cli.interrupt import end_if_asked, terminable
from ars.cli.options import Subparsers, add_command, add_device
from ars.cli.train import train_with_progress
from ars.cli.vote import DRAWS, sentence, vote_with_progress
from ars.methods.registry import methods
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Recipe
from ars.runs.paths import RECIPE, copy_run, find_run
from ars.workflows.processes import one_process
from ars.workflows.request import Request

TEACH = """\
Certify 100 test images of the embedded benchmark (digits on photographs, no download) with each of three models that
come with ars, print the table and write the page with curves and masks. This takes about a minute on two cores. An
interrupted demo resumes where it stopped.

  ars demo
  ars demo --train                                            train the models first: a few minutes
  ars demo --train --methods all
  ars demo --train --out runs/demo-1.0 --sigma 1.0 --seed 1
"""
METHODS = ("cohen", "static_mask", "adaptive")
STAGES = 6
STATIC_MASK_LR = 0.03


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "demo", run, summary="see it work, in minutes", teach=TEACH, resumable=True)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="where everything goes (default: runs/demo)"
    )
    chosen = f"all, or any of {', '.join(methods())} (default: {' '.join(METHODS)})"
    parser.add_argument(
        "--methods", nargs="+", choices=("all", *methods()), default=METHODS, metavar="METHOD", help=chosen
    )
    parser.add_argument("--train", action="store_true", help="train the models instead of taking those of ars")
    sigma, seed = Recipe().sigma, Recipe().seed
    parser.add_argument("--sigma", type=float, help=f"with --train: noise level of all methods (default: {sigma:g})")
    parser.add_argument("--seed", type=int, help=f"with --train: seed of training (default: {seed})")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Train or copy, certify, vote, report: every method has the same budget."""
    from ars.cli.table import print_table
    from ars.report import write_report

    one_process("ars demo")
    chosen = methods() if "all" in options.methods else options.methods
    if not options.train:
        _check_pretrained(options, chosen)
    folders = []
    with terminable():
        for method in chosen:
            folder = options.out / method
            if options.train:
                recipe = _recipe(method, options)
                train_with_progress(recipe, folder, options.device)
                end_if_asked()
            else:
                copy_run(find_run(_pretrained(method)), folder)
                recipe = read_recipe(folder / RECIPE)
            certify_with_progress(Request(folder, recipe.certify), options.device, stages=STAGES)
            end_if_asked()
            tell(f"{folder}: {sentence(vote_with_progress(folder, recipe.certify, options.device, draws=DRAWS))}")
            end_if_asked()
            folders.append(folder)
    report = write_report(folders, options.out / "report")
    print_table(report.table)
    tell(f"open {options.out / 'report' / 'index.html'}")
    return 0


def _recipe(method: str, options: argparse.Namespace) -> Recipe:
    """The recipe of a method; learning rates were chosen on the validation images."""
    given = {name: getattr(options, name) for name in ("sigma", "seed") if getattr(options, name) is not None}
    recipe = Recipe(method=method, **given)
    if method == "static_mask":
        mask = replace(recipe.train.mask, lr=STATIC_MASK_LR)
        recipe = replace(recipe, train=replace(recipe.train, mask=mask))
    return recipe


def _pretrained(method: str) -> Path:
    return Path("digits" if method == "adaptive" else f"digits-{method}")


def _check_pretrained(options: argparse.Namespace, chosen: Iterable[str]) -> None:
    """Refuse what the models that come with ars are not."""
    asked = [f"--{name}" for name in ("sigma", "seed") if getattr(options, name) is not None]
    asked += [f"--methods {method}" for method in chosen if method not in METHODS]
    if asked:
        raise ValueError(f"the models that come with ars have no {asked[0]}; add --train to train them")
