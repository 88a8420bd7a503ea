"""Certification speed: the protocol as the field runs it against the engine, same weights, one run.

    PYTHONPATH=src python3 benchmarks/certify.py --out certify.json

The reference is eager float32 by torch's defaults, batches of 100, one image at a time, counts fetched each batch. The
engine is the vote loop of a Certifier, in bf16. Seconds per image are those of N = 50,000 draws, scaled up from the
draws that were timed; preparing and compiling are timed apart. certifier_s is a further image of the same Certifier,
one_line_s a further call of ars.certify, which prepares anew. Fractions of the peak count the networks' arithmetic
as trained; fractions of the copy bandwidth count each convolution's input and output once in bf16, so that they
exceed 1 where fused layers leave their activations on chip. On a CPU it compares the embedded benchmark's models.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import ars
from ars.certification.settings import CertifySettings
from ars.methods.adaptive import adaptive
from ars.methods.cohen import cohen
from ars.models import Normalize, UNet, cifar_resnet, resnet50, small_cnn
from ars.smoothing import SmoothedClassifier

N = 50_000
CASES: dict[str, tuple[int, Callable[[], nn.Module], int | None]] = {
    "RS, ResNet-110, k = 32": (32, lambda: cifar_resnet(110, 10), None),
    "ARS, ResNet-110, k = 32": (32, lambda: cifar_resnet(110, 10), 32),
    "ARS, ResNet-110, k = 64": (64, lambda: cifar_resnet(110, 10), 32),
    "ARS, ResNet-110, k = 96": (96, lambda: cifar_resnet(110, 10), 32),
    "ARS, ResNet-50, 224": (224, lambda: resnet50(1000), 16),
    "ARS, embedded, k = 24": (24, lambda: small_cnn(10, width=16), 8),
}


def build(case: str, device: torch.device) -> tuple[SmoothedClassifier, Tensor]:
    size, network, mask_width = CASES[case]
    torch.manual_seed(0)
    image = torch.rand(1, 3, size, size, device=device)
    classifier = nn.Sequential(Normalize([0.5] * 3, [0.25] * 3), network())
    mask = None if mask_width is None else UNet(mask_width)
    model = cohen(classifier, sigma=0.5) if mask is None else adaptive(classifier, mask, sigma=0.5)
    model.to(device)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        model.train()(image.expand(16, -1, -1, -1), torch.Generator(device).manual_seed(0))
    return model.eval(), image


@torch.inference_mode()
def reference(model: SmoothedClassifier, image: Tensor, draws: int) -> np.ndarray:
    counts = np.zeros(1000, dtype=np.int64)
    generator = torch.Generator(image.device).manual_seed(0)
    for _ in range(draws // 100):
        votes = model(image.repeat(100, 1, 1, 1), generator).argmax(1).cpu().numpy()
        counts += np.bincount(votes, minlength=1000)
    return counts


def make_certifier(model: SmoothedClassifier) -> ars.Certifier:
    settings = CertifySettings(n_estimate=N, seed=0, precision="bfloat16")
    return ars.Certifier(model, settings, expect=10_000)  # as in a run of many images


def one_line(model: SmoothedClassifier, image: Tensor) -> object:
    return ars.certify(model, image, n_estimate=N, seed=0, precision="bfloat16")


def timed(run: Callable[[int], object], draws: int, budget: float) -> tuple[float, float]:
    """Seconds a draw over as many draws as the budget allows, and seconds of the first call."""
    start = time.perf_counter()
    run(draws)
    first = time.perf_counter() - start
    total, spent = 0, 0.0
    while spent < budget:
        start = time.perf_counter()
        run(draws)
        spent += time.perf_counter() - start
        total += draws
    return spent / total, first


@torch.inference_mode()
def work(model: SmoothedClassifier, image: Tensor) -> tuple[float, float]:
    """Operations of a draw, and the bytes that its convolutions read and write in bf16."""
    moved = 0

    def count(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal moved
        moved += 2 * (inputs[0].numel() + output.numel())

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d)]
    with FlopCounterMode(display=False) as counter:
        model(image, torch.Generator(image.device).manual_seed(0))
    for hook in hooks:
        hook.remove()
    return float(counter.get_total_flops()), float(moved)


def ceilings(device: torch.device) -> dict[str, float]:
    """Measured bf16 operations a second of a large product, and bytes a second of a large copy."""
    size, length = (8192, 2**30) if device.type == "cuda" else (1024, 2**26)
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    source = torch.randn(length // 4, device=device)
    target = torch.empty_like(source)

    def seconds(call: Callable[[], object]) -> float:
        times = []
        for _ in range(10):
            start = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return sorted(times)[5]

    return {"flops": 2 * size**3 / seconds(lambda: a @ b), "bytes": 2 * length / seconds(lambda: target.copy_(source))}


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| | reference, s per image | engine, s per image | ratio | of bf16 peak | of copy bandwidth |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        lines.append(
            "| {case} | {reference_s:.2f} | {engine_s:.3f} | {ratio:.1f} | {of_peak:.2f} | {of_bandwidth:.2f} |".format(
                **row
            )
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the JSON file; the table goes beside it as .md")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", nargs="+", choices=CASES)
    parser.add_argument("--seconds", type=float, default=2.0, help="time each side for about this long")
    parser.add_argument("--profile", action="store_true", help="print where the engine's device time goes")
    options = parser.parse_args()
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    cases = options.only or [case for case in CASES if ("embedded" in case) != gpu]
    top = ceilings(device)
    rows: list[dict[str, Any]] = []
    for case in cases:
        model, image = build(case, device)
        flops, moved = work(model, image)
        slow, _ = timed(lambda n: reference(model, image, n), 1000, options.seconds)  # noqa: B023
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        certifier = make_certifier(model)
        draws = N if gpu else 5000
        fast, first = timed(lambda n: certifier.votes(image, n=n, stage="estimate"), draws, options.seconds)  # noqa: B023
        whole = timed(lambda n: certifier(image), 1, options.seconds)[0] if gpu else None  # noqa: B023
        alone = timed(lambda n: one_line(model, image), 1, options.seconds)[0] if gpu else None  # noqa: B023
        rows.append(
            {
                "case": case, "reference_s": slow * N, "engine_s": fast * N, "ratio": slow / fast,
                "draws_a_second": round(1 / fast), "reference_draws_a_second": round(1 / slow),
                "first_call_s": first, "certifier_s": whole, "one_line_s": alone,
                "of_peak": flops / fast / top["flops"],
                "of_bandwidth": moved / fast / top["bytes"], "gflop_a_draw": flops / 1e9, "mb_a_draw": moved / 1e6,
                "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if gpu else None,
            }
        )  # fmt: skip
        print("  ".join(f"{k}={round(v, 4) if isinstance(v, float) else v}" for k, v in rows[-1].items()), flush=True)
        if options.profile and gpu:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
                certifier.votes(image, n=N // 2)
            print(profiler.key_averages().table(sort_by="cuda_time_total", row_limit=20, max_name_column_width=60))
    triton = version("triton") if find_spec("triton") else None
    record = {
        "machine": torch.cuda.get_device_name() if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "torch": torch.__version__, "triton": triton, "python": platform.python_version(), "command": sys.argv, "n": N,
        "ceilings": top, "rows": rows,
    }  # fmt: skip
    print(table(rows))
    if options.out:
        options.out.write_text(json.dumps(record, indent=1))
        made = f"{record['machine']}, torch {record['torch']}, triton {triton}: `{' '.join(sys.argv)}`"
        options.out.with_suffix(".md").write_text(f"{table(rows)}\n\n{made}\n")


if __name__ == "__main__":
    main()
