"""ars predict: label, radius and votes for image files."""

import argparse
import json
from pathlib import Path
from typing import cast

from ars.cli.certify import recipe_of
from ars.cli.options import Subparsers, add_certification, add_command, add_device, override
from ars.theory.rounding import truncate

TEACH = """\
Predict image files with a trained run: the label, its certified radius and the votes, or an abstention.

  ars predict runs/ars photo.png another.png
  ars predict runs/ars photo.png --n-estimate 100000 --alpha 0.001 --json
"""


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "predict", run, summary="predict image files with certificates", teach=TEACH)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder made by ars train")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files of the model's size")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_certification(parser)
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Read all images first, then certify them one by one."""
    settings = override(recipe_of(options.folder), options)
    from ars.certification.certificate import Certificate
    from ars.certification.procedure import certify
    from ars.data.images import read_image
    from ars.experiments.device import choose_device, choose_precision
    from ars.experiments.run import load_run

    device = choose_device(options.device)
    _, benchmark, model = load_run(options.folder, device)
    images = [read_image(path) for path in options.images]
    for path, image in zip(options.images, images, strict=True):
        if image.shape != benchmark.shape:
            _, height, width = image.shape
            raise ValueError(
                f"{path} is {width}x{height}, the model takes {benchmark.shape[2]}x{benchmark.shape[1]}; "
                "crop or resize it first"
            )
    for index, (path, image) in enumerate(zip(options.images, images, strict=True)):
        certificate = cast(
            Certificate,
            certify(
                model,
                image.to(device),
                norm=settings.norm,
                n_select=settings.n_select,
                n_estimate=settings.n_estimate,
                alpha=settings.alpha,
                bound=settings.bound,
                seed=settings.seed,
                precision=choose_precision(settings.precision, device),
                indices=[index],
            ),
        )
        name = None if certificate.label is None else benchmark.class_names[certificate.label]
        votes = {benchmark.class_names[label]: count for label, count in enumerate(certificate.counts) if count}
        if options.json:
            print(json.dumps({"file": str(path), "label": name, "radius": certificate.radius,
                              "norm": certificate.norm, "alpha": certificate.alpha, "votes": votes}))  # fmt: skip
        elif name is None:
            print(f"{path}: abstains ({_votes(votes)})")
        else:
            unit = 255 if certificate.norm == "linf" else 1
            radius = truncate(unit * certificate.radius, 3) + ("/255" if unit == 255 else "")
            print(f"{path}: {name}, certified within {radius} in {certificate.norm} ({_votes(votes)})")
    return 0


def _votes(votes: dict[str, int]) -> str:
    leading = sorted(votes.items(), key=lambda vote: -vote[1])[:3]
    return ", ".join(f"{count} votes for {name}" for name, count in leading)
