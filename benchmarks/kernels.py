"""Kernels and networks one by one: microseconds a draw and relative error, for choosing between variants.

PYTHONPATH=src python3 benchmarks/kernels.py --out kernels.json
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from ars.kernels.fold import fold, weights
from ars.kernels.layout import Tiling
from ars.kernels.resnet import Stage, fuse_stages, reference_stage
from ars.models import UNet, cifar_resnet, resnet50

ROWS: list[dict[str, object]] = []
# channels: tilings to try (group, tall, wide, rows, warps, stages, resident, registers)
TILINGS = {
    16: [
        Tiling(1, 1, 1, 128, 4, 1, 6),
        Tiling(1, 1, 2, 128, 4, 1, 4),
        Tiling(1, 2, 2, 128, 4, 1, 3),
        Tiling(1, 2, 2, 128, 4, 1, 4, 128),
        Tiling(1, 2, 2, 128, 8, 1, 2),
        Tiling(1, 2, 2, 256, 8, 1, 2, 128),
        Tiling(1, 2, 2, 128, 4, 3, 2),
    ],
    32: [
        Tiling(1, 1, 1, 128, 4, 1, 4),
        Tiling(1, 1, 1, 128, 4, 3, 3),
        Tiling(1, 1, 2, 128, 8, 1, 2, 128),
        Tiling(2, 1, 2, 128, 8, 1, 2, 128),
        Tiling(1, 1, 2, 128, 8, 2, 2, 128),
    ],
    64: [
        Tiling(1, 1, 1, 64, 4, 1, 5),
        Tiling(2, 1, 1, 128, 8, 1, 2),
        Tiling(4, 1, 1, 128, 8, 1, 2),
        Tiling(2, 1, 1, 128, 8, 3, 2, 128),
        Tiling(4, 1, 1, 256, 8, 1, 1),
    ],
}


def seconds(call: Callable[[], object], least: float = 0.15) -> float:
    """The median of repeated runs, by device events."""
    call()
    torch.cuda.synchronize()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < least and len(times) < 50):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return sorted(times)[len(times) // 2]


def report(name: str, draws: int, time_s: float, **more: object) -> None:
    row = {"name": name, "us_a_draw": round(time_s / draws * 1e6, 3), **more}
    ROWS.append(row)
    print("  ".join(f"{key}={value}" for key, value in row.items()), flush=True)


def error(got: Tensor, wanted: Tensor) -> float:
    return round(float((got.float() - wanted).norm() / wanted.norm()), 5)


def sane(network: nn.Module, size: int) -> nn.Module:
    """BatchNorm statistics of noisy images, then disturbed, so that folding has something to fold."""
    network = network.cuda()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            nn.init.uniform_(module.weight, 0.5, 1.0)
            nn.init.normal_(module.bias, 0, 0.1)
    with torch.no_grad():
        network.train()(torch.rand(16, 3, size, size, device="cuda"))
    return network.eval()


def graph(network: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            network(x)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        network(x)
    return captured.replay


def guarded(name: str, action: Callable[[], None]) -> None:
    start = time.perf_counter()
    try:
        action()
    except Exception as problem:  # one variant that fails must not cost the others
        print(f"{name} FAILED {type(problem).__name__}: {str(problem)[:300]}", flush=True)
        ROWS.append({"name": name, "error": str(problem)[:2000]})
    ROWS.append({"name": f"{name} total", "seconds": round(time.perf_counter() - start, 2)})


def stages(sizes: list[int], draws: int) -> dict[tuple[int, int], Tiling]:
    best: dict[tuple[int, int], tuple[float, Tiling]] = {}
    network = sane(cifar_resnet(110, 10), 32)
    plain = fold(network)
    for size in sizes:
        for stage, channels in enumerate((16, 32, 64)):
            k, count = size // 2**stage, draws * 1024 // size**2
            blocks = list(getattr(plain, f"layer{stage + 1}"))[-17:]
            convs = [weights(getattr(block, name)) for block in blocks for name in ("conv1", "conv2")]
            x = torch.rand(count, channels, k, k, device="cuda").to(memory_format=torch.channels_last)
            wanted = reference_stage(x[-40:], convs)
            half = x.bfloat16()
            cut = [(w.bfloat16().to(memory_format=torch.channels_last), b.bfloat16()) for w, b in convs]
            name = f"stage {channels}ch {k}x{k}"
            off = error(reference_stage(half[-40:], cut), wanted)
            report(f"{name} cudnn", count, seconds(graph(lambda x: reference_stage(x, cut), half)), err=off)  # noqa: B023
            for tiling in TILINGS[channels]:

                def one(tiling=tiling, name=name, half=half, wanted=wanted, count=count, key=(size, channels)):
                    stage_kernel = Stage(blocks, tiling).cuda().bfloat16()  # noqa: B023
                    off = error(stage_kernel(half)[-40:], wanted)
                    again = error(stage_kernel(half)[-40:], wanted)
                    time_s = seconds(lambda: stage_kernel(half))
                    report(f"{name} {astuple(tiling)}", count, time_s, err=off, again=again)
                    if off < 0.05 and (key not in best or time_s < best[key][0]):
                        best[key] = (time_s, tiling)

                guarded(f"{name} {tiling}", one)
    return {key: tiling for key, (_, tiling) in best.items()}


def astuple(tiling: Tiling) -> tuple[object, ...]:
    return tuple(vars(tiling).values())


def nets(sizes: list[int], draws: int, best: dict[tuple[int, int], Tiling], compiles: bool) -> None:
    def variants(name: str, network: nn.Module, size: int, extra: dict[str, nn.Module]) -> None:
        count = max(100, draws * 1024 // size**2)
        x = torch.rand(count, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
        half = x.bfloat16()
        with torch.inference_mode():
            wanted = network(x[:40])
            folded = fold(network).bfloat16().to(memory_format=torch.channels_last)
            runs: dict[str, nn.Module] = {"cudnn folded graph": folded, **extra}
            # ResNet-110 takes a minute to compile
            if compiles and size in (32, 224) and "resnet110" not in name:
                runs["compiled"] = torch.compile(folded)  # type: ignore[assignment]
            for kind, run in runs.items():

                def one(kind=kind, run=run):
                    start = time.perf_counter()
                    off = error(run(half)[:40], wanted)
                    torch.cuda.synchronize()
                    took = round(time.perf_counter() - start, 1)
                    report(f"{name} {kind}", count, seconds(graph(run, half)), err=off, first_call_s=took, batch=count)

                guarded(f"{name} {kind}", one)

    for size in sizes:
        resnet = sane(cifar_resnet(110, 10), size)
        chosen = [best.get((size, channels)) for channels in (16, 32, 64)]
        extra = {}
        if all(chosen):
            extra["stage kernels"] = fuse_stages(resnet, chosen).bfloat16().to(memory_format=torch.channels_last)
        variants(f"resnet110 k={size}", resnet, size, extra)
        variants(f"unet32 k={size}", sane(UNet(32), size), size, {})
    variants("resnet50 224", sane(resnet50(1000), 224), 224, {})
    variants("unet16 224", sane(UNet(16), 224), 224, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 96])
    parser.add_argument("--draws", type=int, default=8000, help="images a launch at 32x32; fewer of larger ones")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.inference_mode():
            best = stages(options.sizes, options.draws)
        nets(options.sizes, options.draws, best, not options.no_compile)
    finally:
        device = torch.cuda.get_device_name()
        options.out.write_text(
            json.dumps({"device": device, "torch": torch.__version__, "command": sys.argv, "rows": ROWS}, indent=1)
        )


if __name__ == "__main__":
    main()
