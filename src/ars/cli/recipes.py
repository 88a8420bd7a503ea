"""ars recipes: list the recipes and sweep files that come with ars, or print one."""

import argparse
from pathlib import Path

from ars.cli.options import Subparsers, add_command
from ars.recipes.read import SHIPPED, SWEEPS, not_there

TEACH = """\
List the recipes and the sweep files that come with ars. 'ars train' and 'ars sweep' take them by name.

  ars recipes
  ars recipes digits                         print it, with the commands that it is made for
  ars recipes cifar_backgrounds > mine.yaml  a copy to change: ars train mine.yaml
  ars recipes --sweep digits
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "recipes", run, summary="list the recipes, or print one", teach=TEACH)
    parser.add_argument("name", nargs="?", metavar="RECIPE", help="the recipe to print")
    parser.add_argument("--sweep", metavar="SWEEP", help="the sweep file to print")


def run(options: argparse.Namespace) -> int:
    """Print the list, or a file."""
    given = [(options.name, "recipe", SHIPPED), (options.sweep, "sweep file", SWEEPS)]
    for name, what, folder in given:
        if name is not None:
            path = folder / f"{name}.yaml"
            if not path.is_file():
                raise ValueError(not_there(Path(name), what, folder))
            print(path.read_text(encoding="utf-8"), end="")
    if options.name is options.sweep is None:
        for _, what, folder in given:
            print(f"{what}s")
            for path in sorted(folder.glob("*.yaml")):
                print(f"  {path.stem:<26} {_summary(path)}")
    return 0


def _summary(path: Path) -> str:
    """The line that a file begins with, a comment."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip().rstrip(".")
