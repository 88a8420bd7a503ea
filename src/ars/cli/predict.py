"""ars predict: label, radius, votes and mask for image files."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ars.certification.settings import fresh_seed
from ars.cli.errors import tell
from ars.cli.options import (
    Subparsers,
    add_certification,
    add_classifier,
    add_command,
    add_device,
    add_places,
    limit_memory,
    override,
    recipe_of,
    settings_of,
)
from ars.recipes.read import imported_model
from ars.report.measures import in_units, show_grid_radius, show_radius, unit_name
from ars.runs.paths import RECIPE, find_run

if TYPE_CHECKING:
    from torch import Tensor

    from ars.certification.certificate import Certificate
    from ars.methods.builder import Inputs
    from ars.runs.run import About

TEACH = """\
Predict image files with a trained run: print the label, its certified radius and the votes, or an abstention.

  ars predict digits photo.png --resize                              with a model that comes with ars
  ars predict runs/ars photo.png another.png
  ars predict runs/ars photo.jpg --resize --masks masks              also save each mask as a picture
  ars predict runs/ars photo.png --n-estimate 100000 --alpha 0.001 --json
  ars predict runs/mine photo.png --model my_package:my_model        after ars certify --model ... --out runs/mine

The command needs only the run folder, not the training data. The exception is method sukenik, which measures its noise
from the training images. The certificate is for the image as the model sees it: with --resize, for the resized image.
It holds for images chosen without knowledge of the noise, so each call draws fresh noise; --seed repeats a call.
"""
INSTEAD = "ars predict needs its --model again, and "


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "predict", run, summary="predict image files with certificates", teach=TEACH)
    parser.add_argument("folder", type=Path, metavar="RUN", help="a run folder, or a pretrained model: digits")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files of the model's size")
    parser.add_argument(
        "--resize", action="store_true", help="scale the short side to the model's size and crop the centre"
    )
    parser.add_argument("--masks", type=Path, metavar="DIR", help="save the average mask of each image there, as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_classifier(parser)
    add_places(parser)
    parser.add_argument("--model", metavar="PACKAGE:NAME", help="where to import the model that RUN was made with")
    add_certification(parser, defaults="the run's recipe", seed="seed of the noise, to repeat a call (default: fresh)")
    add_device(parser, memory=True)


def run(options: argparse.Namespace) -> int:
    """Read all images first, then certify them one by one."""
    options.folder = find_run(options.folder)
    imported = _imported(options) if options.model else None
    default = settings_of(options.folder, trained=False) if imported else recipe_of(options.folder, instead=INSTEAD)
    # the guarantee does not cover an image that was chosen with knowledge of the noise
    seed = fresh_seed() if options.seed is None else options.seed
    settings = replace(override(default, options), seed=seed)
    from ars.certification.certifier import Certifier
    from ars.kernels.precision import choose_precision
    from ars.recipes.user_code import explain_errors
    from ars.workflows.hardware import choose_device
    from ars.workflows.imported_model import load_certified
    from ars.workflows.load import load_without_data
    from ars.workflows.stages import average_masks, save_masks

    device = choose_device(options.device)
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    limit_memory(options)
    inputs: Inputs | About
    if imported:
        inputs, model = load_certified(options.folder, imported, device)
    else:
        own, moved = options.classifier, options.overrides
        inputs, model = load_without_data(options.folder, device, classifier=own, moved=moved)
    images = [_read(path, inputs.shape, resize=options.resize) for path in options.images]
    masks = [average_masks(model, seen.image.to(device), seed=seed) for seen in images] if options.masks else []
    if options.masks and not masks[0]:
        raise ValueError(f"the model of {options.folder} has no mask to save; leave --masks out")
    pictures = mask_paths(options.images, options.masks, len(masks[0])) if options.masks else [[] for _ in images]
    certifier = Certifier(model, settings, expect=len(images))
    for index, (seen, saved) in enumerate(zip(images, pictures, strict=True)):
        with explain_errors(options.model or options.classifier):
            [certificate] = certifier(seen.image.to(device), [index])
        if saved:
            save_masks(masks[index], saved)
        if options.seed is None and not options.json and index == 0:
            tell(f"fresh noise: --seed {seed} repeats it", file=sys.stderr)
        show = _json if options.json else _sentence
        tell(show(seen, certificate, inputs.class_names, saved))
    return 0


@dataclass(frozen=True)
class Seen:
    """An image file as the model sees it, and what was done to its size and its values, if anything."""

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
    """Read an image of the shape that the model takes; resize brings others to that shape."""
    from ars.data.crops import read_fitted
    from ars.data.image_files import Channels, conversion, read_image

    channels: Channels = 1 if shape[0] == 1 else 3
    read = read_fitted(path, (shape[1], shape[2]), channels) if resize else (read_image(path, channels), "")
    seen = Seen(path, *read, conversion(path, channels))
    if seen.image.shape != shape:
        height, width = seen.size
        raise ValueError(
            f"{path} is {width}x{height}, but the model takes {shape[2]}x{shape[1]}; resize it, or use --resize"
        )
    return seen


def _imported(options: argparse.Namespace) -> dict[str, Any]:
    """The folder's description of its model, which must be the one given with --model."""
    imported = imported_model(options.folder / RECIPE)
    if imported is None:
        raise ValueError(f"{options.folder} was not made by ars certify --model; leave --model out")
    if imported["model"] != options.model:
        raise ValueError(f"{options.folder} belongs to --model {imported['model']}, got {options.model}; give that")
    if options.classifier is not None:
        raise ValueError("--classifier belongs to a run that was trained here; leave it out")
    return imported


def mask_paths(images: Sequence[Path], folder: Path, steps: int) -> list[list[Path]]:
    """A file for each mask of each image; refuses to overwrite an input image."""
    names: list[str] = []
    for image in images:
        numbered = (f"{image.stem}-{number}" for number in count(2))
        names.append(next(name for name in chain([image.stem], numbered) if name not in names))
    ends = ["-mask.png"] if steps == 1 else [f"-mask-{step + 1}.png" for step in range(steps)]
    paths = [[folder / (name + end) for end in ends] for name in names]
    inputs = {image.resolve() for image in images}
    for path in (path for of_image in paths for path in of_image):
        if path.resolve() in inputs:
            raise ValueError(f"the mask would overwrite the image {path}; choose another folder with --masks")
    return paths


def _json(seen: Seen, found: "Certificate", names: Sequence[str], masks: Sequence[Path]) -> str:
    pixels = {"radius_255": in_units(found.radius, found.norm)} if found.norm == "linf" else {}
    content = {
        "file": str(seen.path), "seen": seen.size, "resized": bool(seen.fitting), "converted": seen.converting,
        "label": None if found.label is None else names[found.label], "radius": found.radius, **pixels,
        "norm": found.norm, "alpha": found.alpha, "votes": _votes(found, names), "draws": found.n_estimate,
        "seed": found.seed, "index": found.index, "precision": found.precision, "exact": found.exact,
        "masks": [str(mask) for mask in masks],
    }  # fmt: skip
    return json.dumps(content)


def _sentence(seen: Seen, found: "Certificate", names: Sequence[str], masks: Sequence[Path]) -> str:
    leading = sorted(_votes(found, names).items(), key=lambda vote: -vote[1])[:3]
    votes = ", ".join(f"{count} votes for {name}" for name, count in leading)
    saved = "".join(f"; mask in {mask}" for mask in masks)
    height, width = seen.size
    done = [seen.converting, seen.fitting and f"{seen.fitting} to {width}x{height}"]
    fitting = f", as {' and '.join(filter(None, done))}" if any(done) else ""
    if found.label is None:
        return f"{seen.path}: abstains{fitting} ({votes}){saved}"
    show = show_grid_radius if found.schedule.mode == "curve" else show_radius
    radius = show(found.radius, found.norm, decimals=3) + unit_name(found.norm)
    return f"{seen.path}: {names[found.label]}, certified within {radius} in {found.norm}{fitting} ({votes}){saved}"


def _votes(found: "Certificate", names: Sequence[str]) -> dict[str, int]:
    return {names[label]: count for label, count in enumerate(found.counts) if count}
