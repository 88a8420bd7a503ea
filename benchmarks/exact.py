"""What exact mode costs: committed outcomes that it would change, and seconds beside the default, in one run.

    PYTHONPATH=src python3 benchmarks/exact.py results/headline/*-seed0 results/digits/{cohen,adaptive}-s0.75-seed0
    PYTHONPATH=src python3 benchmarks/exact.py --cases --device cuda

For each run folder: the total variation that is charged, the certificates that would be lost at each round radius if
exact mode had made the same votes, and, for runs whose data needs no download, the seconds of both modes. With --cases:
the seconds of both modes for the networks of benchmarks/certify.py, as they are certified on that device.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

import certify
from ars.certification.certifier import Certifier
from ars.certification.settings import CertifySettings
from ars.runs.shards import read_certification
from ars.smoothing import Composition, Gaussian, MaskedGaussian, SmoothedClassifier
from ars.theory import Ball, TradeOff
from ars.workflows.load import load_run

LEVELS = (0, 0.25, 0.5, 1, 2, 4, 8)
REPEATS = 7


def exact_mechanism(sigmas: tuple[float, ...], *, masked: bool) -> Composition:
    """The steps of a record, exact; the mask itself plays no part in the guarantee."""
    looks = len(sigmas)
    kinds = [masked and number == looks - 1 for number in range(looks)]
    nothing = torch.nn.Identity()
    return Composition([
        MaskedGaussian(sigma, nothing, exact=True) if mask else Gaussian(sigma, exact=True)
        for sigma, mask in zip(sigmas, kinds, strict=True)
    ])  # fmt: skip


def lost(folder: Path, *, masked: bool) -> str:
    """How many certificates are lost at each radius, and what is charged."""
    records = read_certification(folder / "certify" / "test").records
    counts, charge = dict.fromkeys(LEVELS, 0), 0.0
    for record in records:
        made = record.certificate
        mechanism = exact_mechanism(made.sigmas, masked=masked)
        charge = distance(mechanism.guarantee(Ball(made.norm, made.dim, 0.01)))
        if made.label is None:
            continue
        radius = mechanism.radius(made.p_lower, made.p_upper, norm=made.norm, dim=made.dim)
        for level in LEVELS:
            counts[level] += made.radius >= level / 255 and not (radius > 0 and radius >= level / 255)
    named = ", ".join(f"{count} at {level}/255" for level, count in counts.items() if count) or "none"
    return f"charged {charge:.1e}; lost of {len(records)}: {named}"


def distance(guarantee: TradeOff) -> float:
    """The total variation that a guarantee charges."""
    return float(getattr(guarantee, "distance", 0.0))


def of_run(folder: Path) -> str:
    """Both modes for one image of a committed run, on the CPU."""
    _, benchmark, model = load_run(folder, torch.device("cpu"))
    images, _ = benchmark.examples("test", [0])
    return seconds(model, images, draws=20_000)


def seconds(model: SmoothedClassifier, images: Tensor, *, draws: int) -> str:
    """The median seconds of both modes for one image, one after the other."""
    modes = [
        Certifier(model, CertifySettings(precision="auto", n_estimate=50_000, exact=exact), expect=10_000)
        for exact in (False, True)
    ]
    times: list[list[float]] = [[], []]
    for certifier in modes:
        certifier.votes(images, [1], n=draws)
    for _ in range(REPEATS):
        for certifier, taken in zip(modes, times, strict=True):
            began = time.perf_counter()
            certifier.votes(images, [0], n=draws)
            taken.append(time.perf_counter() - began)
    default, exact = map(statistics.median, times)
    return f"{draws:,} draws: {default:.3f} s and exact {exact:.3f} s, ratio {exact / default:.2f}"


def main() -> None:
    """Print one or two lines for each run or case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--cases", action="store_true")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    for case in certify.CASES if options.cases else ():
        if options.device == "cpu" or "embedded" not in case:
            model, image = certify.build(case, torch.device(options.device))
            print(f"{case}: {seconds(model, image, draws=2000 if options.device == 'cpu' else 20_000)}", flush=True)
    for folder in options.runs:
        print(f"{folder.name}: {lost(folder, masked=not folder.name.startswith('cohen'))}")
        if (folder.parent.name, (folder / "model.safetensors").exists()) == ("digits", True):
            print(f"{folder.name}: {of_run(folder)}")


if __name__ == "__main__":
    main()
