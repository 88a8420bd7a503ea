"""What each stopping mode saves on a real trained run: seconds, draws and what is certified, all modes in one go.

    python benchmarks/modes.py RUN --examples 200 --every 50 --out modes.json

Every mode certifies the same images with the same selection draws, into a copy of the run that is thrown away. The
seconds are those of drawing and deciding; the first mode's include preparing the networks, so a short one goes first.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch

from ars.certification.settings import CertifySettings
from ars.recipes.read import read_recipe
from ars.runs.records import Record
from ars.workflows.certify import certify_run
from ars.workflows.hardware import choose_device
from ars.workflows.request import Request

GRID = tuple(step / 4 / 255 for step in (0, 1, 2, 4, 6, 8, 10, 12))


def modes(usual: CertifySettings) -> dict[str, CertifySettings]:
    """A warm-up and the modes, from few draws to many."""
    return {
        "warm-up": replace(usual, examples=1, n_estimate=1000),
        "curve, 1/255": replace(usual, mode="curve", radii=(1 / 255,)),
        "curve, 8 radii to 3/255": replace(usual, mode="curve", radii=GRID),
        "radius, within 5%": replace(usual, mode="radius", tolerance=0.05),
        "radius, within 1%": replace(usual, mode="radius", tolerance=0.01),
        "fixed": replace(usual, mode="fixed"),
    }


def summary(records: Sequence[Record]) -> dict[str, float]:
    radii = [record.certificate.radius if record.correct else 0.0 for record in records]
    return {
        "seconds": sum(record.seconds for record in records),
        "draws": sum(sum(record.certificate.counts + record.certificate.select_counts) for record in records),
        "standard_accuracy": sum(record.correct for record in records) / len(records),
        "certified_at_1_255": sum(radius >= 1 / 255 for radius in radii) / len(records),
        "average_radius_255": 255 * sum(radii) / len(records),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--n-estimate", type=int, default=50_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("modes.json"))
    options = parser.parse_args()
    device = choose_device(options.device)
    usual = replace(
        read_recipe(options.run / "recipe.yaml").certify,
        examples=options.examples,
        every=options.every,
        n_estimate=options.n_estimate,
    )
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(options.run, Path(folder) / "run", ignore=shutil.ignore_patterns("certify")))
        for number, (name, settings) in enumerate(modes(usual).items()):
            records = certify_run(Request(copy, settings, name=str(number), shard_size=options.examples), device=device)
            results[name] = summary(records)
            print(name, {key: round(value, 4) for key, value in results[name].items()}, flush=True)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    about = {"machine": machine, "torch": version("torch"), "command": " ".join(sys.argv), "results": results}
    options.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
