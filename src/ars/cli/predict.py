"""ars predict: label, radius, votes and mask for image files."""

import argparse
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ars.certification.run_folder import RECIPE
from ars.cli.options import (
    Subparsers,
    add_certification,
    add_classifier,
    add_command,
    add_device,
    add_memory,
    add_places,
    override,
    recipe_of,
    settings_of,
)
from ars.experiments.recipe_file import imported_model
from ars.report.measures import in_units, show_grid_radius, show_radius, unit_name

if TYPE_CHECKING:
    from torch import Tensor

    from ars.certification.certificate import Certificate
    from ars.experiments.build import Inputs
    from ars.report.results import About

TEACH = """\
Predict image files with a trained run: the label, its certified radius and the votes, or an abstention.

  ars predict runs/ars photo.png another.png
  ars predict runs/ars photo.jpg --resize --masks masks              also save each mask as a picture
  ars predict runs/ars photo.png --n-estimate 100000 --alpha 0.001 --json
  ars predict runs/mine photo.png --model my_package:my_model        after ars certify --model ... --out runs/mine

It needs the run folder alone, not the data that the run was trained on (but for method sukenik, whose noise is measured
from the training images). The certificate is for the image as the model sees it: with --resize, for the resized one.
It holds for images that were chosen without knowledge of the noise, so each call draws its own; --seed repeats a call.
"""
SEED_BITS = 32  # larger ones are refused
INSTEAD = "ars predict wants its --model again, and "


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "predict", run, summary="predict image files with certificates", teach=TEACH)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files of the model's size")
    parser.add_argument(
        "--resize", action="store_true", help="bring the short side to the model's size, crop the middle"
    )
    parser.add_argument("--masks", type=Path, metavar="DIR", help="save the average mask of each image there, as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_classifier(parser)
    add_places(parser)
    parser.add_argument("--model", metavar="PACKAGE:NAME", help="where to import the model from that RUN was made with")
    add_certification(parser, defaults="the run's recipe", seed="of the noise, to repeat a call; else a fresh one")
    add_device(parser)
    add_memory(parser)


def run(options: argparse.Namespace) -> int:
    """Read all images first, then certify them one by one."""
    imported = _imported(options) if options.model else None
    usual = settings_of(options.folder, trained=False) if imported else recipe_of(options.folder, instead=INSTEAD)
    # whoever knew the noise could choose an image for it, which no guarantee would cover
    seed = secrets.randbits(SEED_BITS) if options.seed is None else options.seed
    settings = replace(override(usual, options), seed=seed)
    from ars.certification.memory import limit_memory
    from ars.experiments.certifying.given import load_certified
    from ars.experiments.certifying.job import certify_images
    from ars.experiments.device import choose_device, choose_precision
    from ars.experiments.run import load_without_data
    from ars.experiments.stages import average_masks, save_masks

    device = choose_device(options.device)
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    if options.memory is not None:
        limit_memory(device, options.memory)
    inputs: Inputs | About
    if imported:
        inputs, model = load_certified(options.folder, imported, device)
    else:
        inputs, model = load_without_data(
            options.folder, device, classifier=options.classifier, moved=options.overrides or ()
        )
    images = [_read(path, inputs.shape, resize=options.resize) for path in options.images]
    masks = [average_masks(model, seen.image.to(device), seed=seed) for seen in images] if options.masks else []
    if options.masks and not masks[0]:
        raise ValueError(f"the model of {options.folder} has no mask to save; leave --masks out")
    pictures = mask_paths(options.images, options.masks, len(masks[0])) if options.masks else []
    for index, seen in enumerate(images):
        [certificate] = certify_images(model, seen.image.unsqueeze(0).to(device), settings, [index])
        saved = pictures[index] if options.masks else []
        if options.masks:
            save_masks(masks[index], saved)
        if options.seed is None and not options.json and index == 0:
            print(f"fresh noise: --seed {seed} repeats it", file=sys.stderr, flush=True)
        show = _json if options.json else _sentence
        print(show(seen, certificate, inputs.class_names, saved), flush=True)
    return 0


@dataclass(frozen=True)
class Seen:
    """An image file as the model sees it, and what was done to its size and its values; empty where nothing was."""

    path: Path
    image: "Tensor"
    fitting: str
    converting: str

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        _, height, width = self.image.shape
        return height, width


def _read(path: Path, shape: Sequence[int], *, resize: bool) -> Seen:
    """Read an image of the shape that the model takes, or bring it to that where that was asked for."""
    from ars.data.conversion import conversion
    from ars.data.crops import read_fitted
    from ars.data.images import read_image

    seen = Seen(path, *(read_fitted(path, shape[-1]) if resize else (read_image(path), "")), conversion(path))
    if seen.image.shape != shape:
        height, width = seen.size
        raise ValueError(
            f"{path} is {width}x{height}, the model takes {shape[2]}x{shape[1]}; resize it first, or with --resize"
        )
    return seen


def _imported(options: argparse.Namespace) -> dict[str, Any]:
    """What the folder says of its model, which must be the one that is named."""
    imported = imported_model(options.folder / RECIPE)
    if imported is None:
        raise ValueError(f"{options.folder} was not made by ars certify --model; leave --model out")
    if imported["model"] != options.model:
        raise ValueError(f"{options.folder} is of the model {imported['model']}, got {options.model}; name that one")
    if options.classifier is not None:
        raise ValueError("--classifier belongs to a run that was trained here; leave it out")
    return imported


def mask_paths(images: Sequence[Path], folder: Path, steps: int) -> list[list[Path]]:
    """A file for each mask of each image, none of them an image that is read."""
    names: list[str] = []
    for image in images:
        name = next(n for n in _candidates(image.stem) if n not in names)
        names.append(name)
    ends = ["-mask.png"] if steps == 1 else [f"-mask-{step + 1}.png" for step in range(steps)]
    paths = [[folder / (name + end) for end in ends] for name in names]
    inputs = {image.resolve() for image in images}
    for path in (path for some in paths for path in some):
        if path.resolve() in inputs:
            raise ValueError(f"the mask would overwrite the image {path}; choose another folder with --masks")
    return paths


def _candidates(stem: str) -> Sequence[str]:
    return [stem, *(f"{stem}-{number}" for number in range(2, 100_000))]


def _json(seen: Seen, it: "Certificate", names: Sequence[str], masks: Sequence[Path]) -> str:
    pixels = {"radius_255": in_units(it.radius, it.norm)} if it.norm == "linf" else {}
    content = {
        "file": str(seen.path), "seen": seen.size, "resized": bool(seen.fitting),
        "converted": seen.converting,
        "label": None if it.label is None else names[it.label], "radius": it.radius, **pixels, "norm": it.norm,
        "alpha": it.alpha, "votes": _votes(it, names), "draws": it.n_estimate, "seed": it.seed, "index": it.index,
        "precision": it.precision, "masks": [str(mask) for mask in masks],
    }  # fmt: skip
    return json.dumps(content)


def _sentence(seen: Seen, it: "Certificate", names: Sequence[str], masks: Sequence[Path]) -> str:
    leading = sorted(_votes(it, names).items(), key=lambda vote: -vote[1])[:3]
    votes = ", ".join(f"{count} votes for {name}" for name, count in leading)
    saved = "".join(f"; mask in {mask}" for mask in masks)
    height, width = seen.size
    done = [seen.converting, seen.fitting and f"{seen.fitting} to {width}x{height}"]
    fitting = f", as {' and '.join(filter(None, done))}" if any(done) else ""
    if it.label is None:
        return f"{seen.path}: abstains{fitting} ({votes}){saved}"
    show = show_grid_radius if it.schedule.mode == "curve" else show_radius
    radius = show(it.radius, it.norm, decimals=3) + unit_name(it.norm)
    return f"{seen.path}: {names[it.label]}, certified within {radius} in {it.norm}{fitting} ({votes}){saved}"


def _votes(it: "Certificate", names: Sequence[str]) -> dict[str, int]:
    return {names[label]: count for label, count in enumerate(it.counts) if count}
