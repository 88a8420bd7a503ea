"""What the checks of a Certifier cost beside the draws they precede, in one run.

    PYTHONPATH=src python3 benchmarks/checks.py --device cuda

For each network of benchmarks/certify.py: the seconds of every check, the second time in a process; 100 images at
N = 10,000 draws; and the drift check, which runs once for each shard, beside the draws of a shard.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

import certify
from ars.certification.certifier import Certifier
from ars.certification.model_check import Drift, check_again, check_counting, check_model
from ars.certification.settings import CertifySettings
from ars.certification.step_check import check_steps
from ars.runs.shards import SHARD_SIZE
from ars.smoothing import SmoothedClassifier

N = 10_000


def measure(model: SmoothedClassifier, image: Tensor) -> str:
    """One line about a model."""
    certifier = Certifier(model, CertifySettings(precision="auto", n_select=100, n_estimate=N), expect=10_000)

    def seconds(call: Callable[[], object]) -> float:
        call()
        if image.device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        if image.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    counter = certifier.prepare(image)
    first = check_model(certifier._plain, image)
    drift = Drift(counter, image, n=N)
    parts = {
        "model": seconds(lambda: check_model(certifier._plain, image)),
        "steps": seconds(lambda: check_steps(certifier._plain.mechanism, image, "linf")),
        "counting": seconds(lambda: check_counting(counter, image)),
        "again": seconds(lambda: check_again(certifier._plain, image, first)),
    }
    repeated, votes = seconds(drift.check), seconds(lambda: certifier.votes(image, n=N + 100)) - seconds(drift.check)
    named = ", ".join(f"{name} {taken:.3f}" for name, taken in parts.items())
    return (
        f"{named} s: {sum(parts.values()) / (100 * votes):.1%} of 100 images of {votes:.4f} s; "
        f"drift check {repeated:.4f} s: {repeated / (SHARD_SIZE * votes):.1%} of a shard of {SHARD_SIZE} images"
    )


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    for case in certify.CASES:
        if ("embedded" in case) == (device.type == "cpu"):
            print(f"{case}: {measure(*certify.build(case, device))}", flush=True)


if __name__ == "__main__":
    main()
