"""ars demo: train, certify and compare on the embedded benchmark."""

import argparse
from dataclasses import replace
from pathlib import Path

from ars.cli.certify import certify_with_progress
from ars.cli.errors import tell
from ars.cli.interrupt import end_if_asked, terminable
from ars.cli.options import Subparsers, add_command, add_device
from ars.cli.train import train_with_progress
from ars.methods.registry import methods
from ars.recipes.recipe import Recipe
from ars.workflows.request import Request

TEACH = """\
Train each method at the same noise level on the embedded benchmark (digits on photographs, no download), certify
100 test images with each, print the table and write the page with curves and masks. This takes a few minutes on two
cores. An interrupted demo resumes where it stopped.

  ars demo
  ars demo --methods all
  ars demo --out runs/demo-1.0 --sigma 1.0 --seed 1
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
    default = Recipe()
    parser.add_argument(
        "--sigma", type=float, default=default.sigma, help=f"noise level of all methods (default: {default.sigma:g})"
    )
    parser.add_argument("--seed", type=int, default=default.seed, help=f"seed of training (default: {default.seed})")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Train, certify, report: the same budget for all methods, learning rates chosen on the validation images."""
    from ars.cli.table import print_table
    from ars.report import write_report

    folders = []
    with terminable():
        for method in methods() if "all" in options.methods else options.methods:
            recipe = Recipe(method=method, sigma=options.sigma, seed=options.seed)
            if method == "static_mask":
                mask = replace(recipe.train.mask, lr=STATIC_MASK_LR)
                recipe = replace(recipe, train=replace(recipe.train, mask=mask))
            folder = options.out / method
            train_with_progress(recipe, folder, options.device)
            end_if_asked()
            certify_with_progress(Request(folder, recipe.certify), options.device, stages=STAGES)
            end_if_asked()
            folders.append(folder)
    report = write_report(folders, options.out / "report")
    print_table(report.table)
    tell(f"open {options.out / 'report' / 'index.html'}")
    return 0
