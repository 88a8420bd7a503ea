"""ars certify: from a model to records."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ars.certification.run_folder import MAIN, RECIPE, records_folder
from ars.certification.shards import IncompleteError, merge
from ars.cli.interrupt import stoppable
from ars.cli.live import live_view
from ars.cli.options import (
    Override,
    Subparsers,
    add_certification,
    add_classifier,
    add_command,
    add_device,
    add_memory,
    check_count,
    data_overrides,
    override,
    settings_of,
)
from ars.data.settings import PLACES, Data
from ars.experiments.certifying.request import Request
from ars.experiments.recipe_file import read_recipe
from ars.experiments.recipe_help import meanings
from ars.experiments.world import World, read_world

if TYPE_CHECKING:
    from ars.experiments.certifying.given import Source

TEACH = """\
Certify test images of a run. With probability at least 1 - alpha over the draws, each label that is given is not
changed by any perturbation within its radius. An interrupted certification goes on where it was.

  ars certify runs/ars                                        as its recipe says
  ars certify runs/ars --examples 200 --every 50 --n-estimate 10000 --name more
  ars certify runs/ars --stages 6                             also save the stages of 6 images for the report
  ars certify runs/ars --data.root new/photos                 the images that it was trained on lie there now
  torchrun --nproc-per-node 8 -m ars.cli certify runs/ars     the same records from 8 GPUs; Slurm: docs/certify.md

A model that was not trained here, imported from the current folder or the environment:

  ars certify --model my_package:my_model --data folder:photos --out runs/mine
  ars certify --model my_package:my_classifier --sigma 0.5 --data digits --out runs/mine

my_model is a SmoothedClassifier or a function that returns one; a plain classifier is smoothed with --sigma as in
Cohen et al.

A run that was trained around a classifier of your own holds its weights; its code is imported when you name it again:

  ars certify runs/mine --classifier my_package:my_classifier
"""
NOTICE = "ars: ending after the shard in flight; Ctrl-C again ends at once and gives up that shard"


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "certify", run, summary="certify test images of a run", teach=TEACH, goes_on=True)
    parser.add_argument("folder", type=Path, nargs="?", metavar="RUN", help="a run folder made by ars train")
    parser.add_argument(
        "--examples",
        type=int,
        metavar="N",
        help="how many images (--model: 100, or all where there are fewer); more may be added later",
    )
    parser.add_argument("--every", type=int, metavar="K", help="take each K-th test image")
    parser.add_argument("--name", default=MAIN, help=f"the records go to RUN/certify/NAME (default: {MAIN})")
    parser.add_argument(
        "--stages", type=int, default=0, metavar="N", help="save the pipeline's stages for N images (default: 0)"
    )
    parser.add_argument("--shard-size", type=int, metavar="N", help="images a file of records (default: 10)")
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: on a Ray cluster, or all cores (default: local)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON summary")
    add_classifier(parser)
    group = parser.add_argument_group("a model that was not trained here")
    group.add_argument("--model", metavar="PACKAGE:NAME", help="where to import the model from")
    group.add_argument("--data", metavar="KIND[:ROOT]", help="its benchmark: digits, or folder:PATH, ...")
    group.add_argument("--sigma", type=float, help="the noise for a plain classifier")
    group.add_argument("--out", type=Path, metavar="RUN", help="the run folder to make or to go on with")
    for key, meaning in meanings(Data).items():
        if key != "kind":
            meaning = meaning.replace("%", "%%")
            group.add_argument(f"--data.{key}", dest="overrides", action=Override, metavar="VALUE", help=meaning)
    add_certification(parser, defaults="as begun before, else the run's recipe")
    add_device(parser)
    add_memory(parser)


def run(options: argparse.Namespace) -> int:
    """Certify, showing progress, and print a summary."""
    check_count("--shard-size", options.shard_size, least=1)
    check_count("--stages", options.stages, least=0)
    folder, given = _what(options)
    world = read_world()
    settings = override(settings_of(folder, options.name, trained=options.model is None), options)
    request = Request(
        folder,
        settings,
        name=options.name,
        shard_size=options.shard_size,
        given=given,
        at_most=options.examples is None and (options.model is not None or read_recipe(folder / RECIPE).at_most),
    )
    certify_with_progress(
        request, options.device, stages=options.stages, world=world, engine=options.engine, memory=options.memory
    )
    if world.rank == 0:
        _summarise(folder, options.name, as_json=options.json)
    return 0


def certify_with_progress(
    request: Request,
    device_name: str,
    *,
    stages: int = 0,
    world: World = World(),  # noqa: B008 (frozen)
    engine: str = "local",
    memory: float | None = None,
    enough: Callable[[], bool] = lambda: False,
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Certify with a live view of what is certified so far; of several ranks, the first shows it.

    enough is asked before each shard, as Ctrl-C is; over within it, as a second Ctrl-C, which gives it up.
    """
    if engine == "ray" and world.size > 1:
        raise ValueError(f"--engine ray finds its own workers; start it once, not as {world.name}")
    if engine == "ray" and memory is not None:
        raise ValueError("--memory is for --engine local: Ray starts workers of its own")
    from ars.certification.memory import limit_memory
    from ars.experiments.certifying.local_engine import certify_run
    from ars.experiments.device import choose_device
    from ars.experiments.stages import save_stages

    device = choose_device(device_name, world.local)
    if memory is not None:
        limit_memory(device, memory)
    title = str(request.folder) if world.size == 1 else f"{request.folder} ({world.name})"
    measured = None if request.settings.mode == "curve" else request.settings.norm
    view = live_view(title, norm=measured, shown=world.rank == 0)

    def tell(line: str) -> None:
        if world.rank == 0:
            print(line, file=sys.stderr, flush=True)

    with stoppable(NOTICE if world.rank == 0 else "") as stop, view as show:
        if engine == "ray":
            from ars.experiments.certifying.ray_engine import certify_with_ray

            certify_with_ray(request, device_name=device_name, report=show, tell=tell, stop=stop)
        else:
            certify_run(
                request, device=device, world=world, report=show, tell=tell, stop=lambda: stop() or enough(), over=over
            )
    if stages and world.rank == 0:
        save_stages(request, device=device, images=stages)


def _what(options: argparse.Namespace) -> "tuple[Path, Source | None]":
    """The run folder, and the model where it was not trained here."""
    if options.model is None:
        extra = [f"--{name}" for name in ("data", "sigma", "out") if getattr(options, name) is not None]
        given = tuple(options.overrides or ())
        moved = tuple(option for option in given if option.startswith(tuple(f"--data.{key}=" for key in PLACES)))
        extra += [option.partition("=")[0] for option in given if option not in moved]
        if extra:
            raise ValueError(f"{extra[0]} belongs to a model that was not trained here; name it with --model")
        if options.folder is None:
            raise ValueError("say what to certify: a run folder, or --model PACKAGE:NAME --data KIND --out RUN")
        if options.classifier is None and not moved:
            return options.folder, None
        from ars.experiments.certifying.given import Around

        return options.folder, Around(options.folder, options.classifier, moved)
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
    from ars.experiments.certifying.given import Given

    data = (*data_overrides(options.data), *(options.overrides or ()))
    return options.out, Given(options.model, data, options.sigma)


def _summarise(folder: Path, name: str, *, as_json: bool) -> None:
    """The table, where all images are there; else what is missing."""
    from ars.cli.report import print_table

    try:
        merge(records_folder(folder, name))
    except IncompleteError as error:
        print(f"ars: this part is done; {error}", file=sys.stderr)
    else:
        print_table([folder], name=name, as_json=as_json)
