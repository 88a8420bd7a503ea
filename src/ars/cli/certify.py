"""ars certify: from a trained run to records."""

import argparse
from pathlib import Path

from ars.certification.records import Record
from ars.cli.interrupt import stoppable
from ars.cli.options import Subparsers, add_certification, add_command, add_device, override
from ars.experiments.recipe import CertifySettings, read_recipe
from ars.theory.rounding import truncate

TEACH = """\
Certify test images of a run. With probability at least 1 - alpha over the draws, each label that is given is not
changed by any perturbation within its radius. An interrupted certification goes on where it was.

  ars certify runs/ars                                        as its recipe says
  ars certify runs/ars --examples 200 --every 1 --n-estimate 10000 --name more
  ars certify runs/ars --stages 6                             also save the stages of 6 images for the report
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "certify", run, summary="certify test images of a run", teach=TEACH)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder made by ars train")
    parser.add_argument("--examples", type=int, metavar="N", help="how many images")
    parser.add_argument("--every", type=int, metavar="K", help="take each K-th test image")
    parser.add_argument("--name", default="test", help="the records go to RUN/certify/NAME")
    parser.add_argument("--stages", type=int, default=0, metavar="N", help="save the pipeline's stages for N images")
    parser.add_argument("--json", action="store_true", help="print a JSON summary")
    add_certification(parser)
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Certify, showing progress, and print a summary."""
    settings = override(recipe_of(options.folder), options)
    certify_with_progress(options.folder, settings, options.device, name=options.name, stages=options.stages)
    from ars.cli.report import print_table

    print_table([options.folder], name=options.name, as_json=options.json)
    return 0


def recipe_of(folder: Path) -> CertifySettings:
    """The certification settings of a run's recipe."""
    if not (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder} is not a run folder: it has no recipe.yaml; make one with ars train")
    return read_recipe(folder / "recipe.yaml").certify


def certify_with_progress(
    folder: Path, settings: CertifySettings, device_name: str, *, name: str = "test", stages: int = 0
) -> None:
    """Certify with a progress bar that counts what is certified so far."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ars.experiments.certifying import certify_run, save_stages
    from ars.experiments.device import choose_device

    device = choose_device(device_name)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    correct: list[float] = []
    with stoppable() as stop, Progress(*columns) as bar:
        task = bar.add_task(f"{folder}: certifying", total=None)

        def report(record: Record, done: int, total: int) -> None:
            correct.append(255 * record.certificate.radius if record.correct else 0.0)
            right, mean = sum(radius > 0 for radius in correct) / len(correct), sum(correct) / len(correct)
            draws = (sum(record.certificate.select_counts) + record.certificate.n_estimate) / record.seconds
            bar.update(
                task,
                completed=done,
                total=total,
                description=f"{folder}: certified {right:.0%}, mean radius {truncate(mean, 2)}/255, "
                f"{draws:,.0f} draws/s",
            )

        certify_run(folder, settings, device=device, name=name, report=report, stop=stop)
    if stages:
        save_stages(folder, settings, device=device, name=name, images=stages)
