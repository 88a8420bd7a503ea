"""ars certify: from a model to records."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.errors import tell
from ars.cli.interrupt import stoppable
from ars.cli.options import (
    Subparsers,
    add_certification,
    add_classifier,
    add_command,
    add_data,
    add_device,
    add_engine,
    add_plan,
    check_count,
    check_not_imported,
    check_plan,
    given_model,
    limit_memory,
    override,
    settings_of,
)
from ars.cli.table import print_runs
from ars.cli.views import certification_view, describe_forecast, duration
from ars.recipes.read import read_recipe
from ars.runs.paths import MAIN, RECIPE
from ars.runs.shards import merge
from ars.workflows.processes import World, one_process, read_world
from ars.workflows.request import Request

if TYPE_CHECKING:
    from ars.workflows.imported_model import Given

TEACH = """\
Certify test images of a run. With probability at least 1 - alpha over the draws, no perturbation within the radius
changes the label. An interrupted certification resumes where it stopped.

  ars certify runs/ars                                        with the settings of its recipe
  ars certify runs/ars --examples 200 --every 50 --n-estimate 10000 --name more
  ars certify runs/ars --stages 6                             also save the stages of 6 images for the report
  ars certify runs/ars --data.root new/photos                 if the images it was trained on were moved
  ars certify runs/ars --plan --price 3                       what the rest will take on 1, 8 and 64 GPUs
  torchrun --nproc-per-node 8 -m ars certify runs/ars         the same records from 8 GPUs; Slurm: docs/certify.md
  ars certify runs/ars --engine ray                           the same from a Ray cluster: docs/scale.md

A model that was not trained here, imported from the current folder or the environment:

  ars certify --model my_package:my_model --data folder:photos --out runs/mine
  ars certify --model my_package:my_classifier --sigma 0.5 --data digits --out runs/mine

  ars certify --model timm:resnet50 --sigma 0.25 --data folder:photos --data.size 224 --out runs/timm
  ars certify --model transformers:my-vit --sigma 0.25 --data folder:photos --data.size 224 --out runs/vit

my_model is a SmoothedClassifier, or a function that returns one. A plain classifier is smoothed with --sigma, as in
Cohen et al. timm: takes the name of a pretrained model, transformers: a folder or a repository of the Hub. Their
normalisation goes behind the noise, and their classes are found by the names of the folders.

A run trained around your own classifier holds its weights. Name the classifier again to import its code:

  ars certify runs/mine --classifier my_package:my_classifier
"""
NOTICE = "ars: stopping after the current shard; press Ctrl-C again to stop at once and drop that shard"
WAIT_SECONDS = 2.0  # between two looks at the records of other ranks


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "certify", run, summary="certify test images of a run", teach=TEACH, resumable=True)
    parser.add_argument("folder", type=Path, nargs="?", metavar="RUN", help="a run folder made by ars train")
    parser.add_argument(
        "--examples",
        type=int,
        metavar="N",
        help="how many images (--model: 100, or all if there are fewer); you can add more later",
    )
    parser.add_argument("--every", type=int, metavar="K", help="take every K-th test image")
    parser.add_argument("--name", default=MAIN, help=f"the records go to RUN/certify/NAME (default: {MAIN})")
    parser.add_argument(
        "--stages", type=int, default=0, metavar="N", help="save the pipeline's stages for N images (default: 0)"
    )
    parser.add_argument("--shard-size", type=int, metavar="N", help="images per file of records (default: 10)")
    add_engine(parser, ray="an actor per GPU of a Ray cluster, or per core of this machine")
    add_plan(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON summary")
    add_classifier(parser)
    group = parser.add_argument_group("a model that was not trained here")
    group.add_argument(
        "--model", metavar="PACKAGE:NAME", help="where to import the model from, or timm:NAME, transformers:PATH"
    )
    group.add_argument("--out", type=Path, metavar="RUN", help="the run folder to create or continue")
    add_data(group)
    add_certification(parser, defaults="those of the records in RUN, else the run's recipe")
    add_device(parser, memory=True)


def run(options: argparse.Namespace) -> int:
    """Certify, showing progress, and print a summary."""
    check_count("--shard-size", options.shard_size, least=1)
    check_count("--stages", options.stages, least=0)
    folder, given, moved = _folder_and_model(options)
    world = read_world()
    settings = override(settings_of(folder, options.name, trained=options.model is None), options)
    request = Request(
        folder,
        settings,
        name=options.name,
        shard_size=options.shard_size,
        given=given,
        classifier=options.classifier,
        moved=moved,
        at_most=options.examples is None and (options.model is not None or read_recipe(folder / RECIPE).at_most),
    )
    if options.engine == "ray" and options.memory is not None:
        raise ValueError("--memory works only with --engine local, because Ray starts its own workers; leave it out")
    limit_memory(options, world.local)
    check_plan(options)
    if options.plan:
        print_forecast(request, options)
        return 0
    certify_with_progress(
        request, options.device, stages=options.stages, world=world, engine=options.engine,
        gpus_per_worker=options.gpus_per_worker,
    )  # fmt: skip
    if world.rank == 0:
        there = merge(request.records, partial=True)
        while there.missing and world.together:  # if another rank fails, torchrun ends this one
            time.sleep(WAIT_SECONDS)
            there = merge(request.records, partial=True)
        if there.missing:
            have = f"{len(there.records)} of {there.manifest.layout.examples} images"
            tell(f"ars: {world.name} is done; {have} have records, the others belong to other ranks", file=sys.stderr)
        else:
            print_runs([folder], name=options.name, as_json=options.json)
    return 0


def print_forecast(request: Request, options: argparse.Namespace) -> None:
    """Time the first images and print what the rest will take."""
    one_process("ars certify --plan")
    from ars.workflows.forecast import forecast_certification
    from ars.workflows.hardware import choose_device

    device = choose_device(options.device)
    plan = forecast_certification(request, device)
    about = f"{request.folder}: {plan.images} of {plan.total} images are left"
    if not plan.images:
        tell(about)
        return
    rate, each = 1 / plan.timed.draw, sum(plan.forecast.pieces) / plan.images
    tell(f"{about}, {'at most ' if plan.at_most else ''}{plan.draws:,} draws")
    tell(f"on {plan.device}: {rate:,.0f} draws/s, {each:.3g} s per image, {duration(plan.forecast.start)} to start")
    unit = "GPU" if device.type == "cuda" else "worker"
    tell(describe_forecast(plan.forecast, options.on, unit=unit, price=options.price))


def certify_with_progress(
    request: Request,
    device_name: str,
    *,
    stages: int = 0,
    world: World = World(),  # noqa: B008 (frozen)
    engine: str = "local",
    gpus_per_worker: float = 1.0,
    enough: Callable[[], bool] = lambda: False,
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Certify with a live view of the progress; with several ranks, only the first shows it.

    Like Ctrl-C, enough is checked before each shard. Like a second Ctrl-C, over is checked within a shard and drops it.
    """
    if engine == "ray" and world.size > 1:
        raise ValueError(f"--engine ray starts its own workers; start it as one process, not as {world.name}")
    from ars.workflows.certify import certify_run
    from ars.workflows.hardware import choose_device
    from ars.workflows.stages import save_stages

    title = str(request.folder) if world.size == 1 else f"{request.folder} ({world.name})"
    measured = None if request.settings.mode == "curve" else request.settings.norm
    view = certification_view(title, norm=measured, shown=world.rank == 0)

    def begin(line: str) -> None:
        if world.rank == 0:
            tell(line, file=sys.stderr)

    with stoppable(NOTICE if world.rank == 0 else "") as stop, view as show:

        def end() -> bool:
            return stop() or enough()

        if engine == "ray":
            from ars.workflows.ray import certify_with_ray

            certify_with_ray(
                request, device_name=device_name, gpus_per_worker=gpus_per_worker, report=show, tell=begin, stop=end,
                over=over,
            )  # fmt: skip
        else:
            device = choose_device(device_name, world.local)
            certify_run(request, device=device, world=world, report=show, tell=begin, stop=end, over=over)
    if stages and world.rank == 0:
        save_stages(request, device=choose_device(device_name, world.local), images=stages)


def _folder_and_model(options: argparse.Namespace) -> "tuple[Path, Given | None, tuple[str, ...]]":
    """The run folder, the model if it was not trained here, and the new place of data that was moved."""
    if options.model is None:
        check_not_imported(options, ("data", "sigma", "out"), "name it with --model")
        if options.folder is None:
            raise ValueError("name what to certify: a run folder, or --model PACKAGE:NAME --data KIND --out RUN")
        return options.folder, None, tuple(options.overrides)
    if options.classifier is not None:
        raise ValueError("--classifier belongs to a run that was trained here; give its folder and leave --model out")
    if options.folder is not None:
        raise ValueError(
            f"give a run folder ({options.folder}) or --model, not both; records of --model go to --out RUN"
        )
    if options.data is None or options.out is None:
        raise ValueError("--model needs a benchmark and a place for the records: --data KIND[:ROOT] --out RUN")
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"{options.out} is a file; choose a folder with --out")
    return options.out, given_model(options, options.model), ()
