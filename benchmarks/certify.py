"""Certification speed: the protocol as the field runs it against the engine, same weights, one run.

    PYTHONPATH=src python3 benchmarks/certify.py --out certify.json

The reference is eager float32 without TF32, batches of 100, one image at a time, counts fetched after each batch.
Seconds an image are those of N = 50,000 draws, scaled up from the draws that were timed.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ars.certification.sampling import count_votes
from ars.kernels.fold import fold
from ars.methods import adaptive, cohen
from ars.models import Normalize, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import SmoothedClassifier

N = 50_000
CASES = {
    "RS k=32": (32, lambda: cifar_resnet(110, 10), None),
    "ARS k=32": (32, lambda: cifar_resnet(110, 10), 32),
    "ARS k=64": (64, lambda: cifar_resnet(110, 10), 32),
    "ARS k=96": (96, lambda: cifar_resnet(110, 10), 32),
    "ARS 224": (224, lambda: resnet50(1000), 16),
    "embedded": (24, lambda: small_cnn(10, width=16), 8),
}


def build(case: str, device: torch.device) -> tuple[SmoothedClassifier, Tensor]:
    size, network, mask_width = CASES[case]
    torch.manual_seed(0)
    image = torch.rand(1, 3, size, size, device=device)
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), network())
    if mask_width is None:
        model = cohen(classifier, sigma=0.5)
    else:
        model = adaptive(classifier, UNet(mask_width), sigma=0.5)
    model.to(device)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        generator = torch.Generator(device).manual_seed(0)
        model.train()(image.expand(16, -1, -1, -1), generator)
    return model.eval(), image


@torch.inference_mode()
def reference(model: SmoothedClassifier, image: Tensor, draws: int) -> np.ndarray:
    counts = np.zeros(1000, dtype=np.int64)
    generator = torch.Generator(image.device).manual_seed(0)
    for _ in range(draws // 100):
        votes = model(image.repeat(100, 1, 1, 1), generator).argmax(1).cpu().numpy()
        counts += np.bincount(votes, minlength=1000)
    return counts


class Half(nn.Module):
    def __init__(self, network: nn.Module, kind: str) -> None:
        super().__init__()
        self.network = fold(network).bfloat16().to(memory_format=torch.channels_last)
        if kind == "compiled":
            self.network = torch.compile(self.network)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x.to(torch.bfloat16, memory_format=torch.channels_last)).float()


def halved(model: SmoothedClassifier, kind: str) -> SmoothedClassifier:
    from copy import deepcopy

    model = deepcopy(model)
    model.classifier[1] = Half(model.classifier[1], kind)
    for step in model.mechanism.steps:
        if hasattr(step, "mask"):
            step.mask = Half(step.mask, kind)
    return model


def timed(run: Callable[[int], object], draws: int, budget: float) -> tuple[float, int]:
    """Seconds a draw, over as many draws as the budget allows."""
    run(draws)
    total, spent = 0, 0.0
    while spent < budget:
        start = time.perf_counter()
        run(draws)
        spent += time.perf_counter() - start
        total += draws
    return spent / total, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", nargs="+", choices=CASES)
    parser.add_argument("--seconds", type=float, default=2.0, help="time a variant for about this long")
    parser.add_argument("--variants", nargs="+", default=["reference", "autocast", "folded", "compiled"])
    options = parser.parse_args()
    device = torch.device(options.device)
    cases = options.only or ([c for c in CASES if c != "embedded"] if device.type == "cuda" else ["embedded"])
    rows = []
    for case in cases:
        model, image = build(case, device)
        draws = max(1000, 20_000 * 1024 // image[0, 0].numel() // 1000 * 1000) if device.type == "cuda" else 2000
        batch = draws // 2
        base = None
        for variant in options.variants:
            start = time.perf_counter()
            if variant == "reference":
                per_draw, total = timed(lambda n: reference(model, image, n), 1000, options.seconds)  # noqa: B023
                base = per_draw
            else:
                run_model = model if variant == "autocast" else halved(model, variant)
                precision = "bfloat16" if variant == "autocast" else "float32"
                per_draw, total = timed(
                    lambda n: count_votes(
                        run_model,
                        image,
                        [0],
                        n=n,
                        stage="estimate",
                        seed=0,
                        precision=precision,
                        batch_size=batch,  # noqa: B023
                    ),
                    draws,
                    options.seconds,
                )
            row = {
                "case": case, "variant": variant, "draws_a_second": round(1 / per_draw), "timed_draws": total,
                "seconds_an_image": round(per_draw * N, 3), "ratio": round(base / per_draw, 1) if base else None,
                "wall_s": round(time.perf_counter() - start, 1),
            }  # fmt: skip
            rows.append(row)
            print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    record = {"machine": machine, "torch": torch.__version__, "command": sys.argv, "n": N, "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
