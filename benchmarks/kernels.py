"""Kernels one by one and whole networks: microseconds a draw and relative error, for choosing between tilings.

PYTHONPATH=src python3 benchmarks/kernels.py --out kernels.json
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.fold import fold, weights
from ars.kernels.layers import Conv, tile_for
from ars.kernels.layout import ConvTile, Tiling
from ars.kernels.resnet import TILINGS, FusedResNet, Stage, reference_stage
from ars.kernels.unet import FusedUNet
from ars.models import UNet, cifar_resnet

ROWS: list[dict[str, object]] = []
NARROW = [(2, 2, 128, 64, 64, 4, 2), (2, 2, 128, 64, 64, 4, 3), (1, 2, 128, 64, 64, 4, 3), (2, 2, 256, 64, 64, 8, 2)]
MIDDLE = [(1, 2, 128, 64, 64, 4, 2), (1, 2, 128, 64, 64, 4, 3), (1, 2, 256, 64, 64, 8, 3), (2, 2, 128, 128, 64, 8, 2)]
PIXEL = [
    (1, 1, 128, 128, 64, 4, 3), (1, 1, 128, 128, 64, 8, 3), (1, 1, 256, 128, 64, 8, 3), (1, 1, 128, 64, 64, 4, 4),
    (1, 1, 64, 128, 64, 4, 3), (1, 1, 128, 128, 128, 8, 3),
]  # fmt: skip
# stage tilings for maps too large for the L2 cache at two programs a multiprocessor, by channels
LARGE = {
    16: [(1, 2, 2, 256, 8, 3, 1, None), (1, 2, 2, 128, 8, 3, 1, None), (1, 2, 2, 128, 4, 3, 1, None)],
    32: [(1, 1, 2, 128, 8, 3, 1, None), (1, 1, 2, 256, 8, 2, 1, None), (1, 1, 2, 256, 16, 2, 1, None)],
    64: [(1, 1, 1, 128, 8, 3, 2, 128), (1, 1, 1, 64, 4, 3, 4, None), (1, 1, 1, 64, 4, 3, 3, None)],
}


def seconds(call: Callable[[], object], least: float = 0.05) -> float:
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


def poisoned(call: Callable[[], Tensor]) -> Tensor:
    """What a call returns into memory that was NaN before: the allocator hands the same block out again."""
    out = call()
    out.fill_(float("nan"))
    del out
    return call()


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


def guarded(name: str, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as problem:  # one variant that fails must not cost the others
        print(f"{name} FAILED {type(problem).__name__}: {str(problem)[:300]}", flush=True)
        ROWS.append({"name": name, "error": str(problem)[:2000]})


def tiles(conv: nn.Conv2d) -> list[ConvTile]:
    """What to try for a layer: the tile in use first."""
    if conv.stride[0] == 2 or conv.kernel_size[0] == 1 or conv.out_channels >= 64:
        tried = PIXEL[: 4 if conv.out_channels < 64 else 6]
    else:
        tried = NARROW if conv.out_channels == 16 else MIDDLE
    return list(dict.fromkeys([tile_for(conv), *(ConvTile(*tile) for tile in tried)]))


def layers(width: int, size: int) -> list[tuple[str, nn.Conv2d, int, int]]:
    """Name, layer, size of its map and channels of the upsampled operand of the distinct layers of a U-Net."""
    network = UNet(width)
    found: dict[tuple[object, ...], tuple[str, nn.Conv2d, int, int]] = {}
    for name, conv in network.named_modules():
        if isinstance(conv, nn.Conv2d) and name != "to_mask":
            kind, level = name.split(".")[0], 3 if name.startswith("bottom") else int(name.split(".")[1])
            split = conv.in_channels // 2 if kind == "decoders" and name.endswith(".0") else 0
            side = size // 2 ** (level + (kind == "halvings"))
            key = (conv.in_channels, conv.out_channels, conv.stride, conv.kernel_size, side, split)
            found.setdefault(key, (name, conv, side, split))
    return list(found.values())


def one_layer(
    conv: nn.Conv2d, side: int, split: int, tile: ConvTile, draws: int
) -> tuple[Callable[[], Tensor], Tensor]:
    """The layer on random maps, and what torch makes of them in float32."""
    conv = nn.Conv2d(
        conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, padding_mode=conv.padding_mode
    ).cuda()  # with a bias
    layer = Conv(conv, torch.bfloat16, slope=0.01, tile=tile, split=split)
    channels = max(4, conv.in_channels)
    x = torch.randn(draws, side, side, channels, device="cuda").bfloat16()
    x[..., conv.in_channels :] = 0
    if not split:
        wanted = conv(x[..., : conv.in_channels].float().permute(0, 3, 1, 2))
        return lambda: layer(x), F.leaky_relu(wanted).permute(0, 2, 3, 1)
    low, skip = x[:, ::2, ::2, :split].contiguous(), x[..., split:].contiguous()
    joined = torch.cat(
        [F.interpolate(low.float().permute(0, 3, 1, 2), scale_factor=2), skip.float().permute(0, 3, 1, 2)], 1
    )
    return lambda: layer(low, second=skip, up=2), F.leaky_relu(conv(joined)).permute(0, 2, 3, 1)


@torch.inference_mode()
def warm(job: tuple[int, int, int, int]) -> None:
    """Compile every share-th kernel into the disk cache."""
    width, size, share, shares = job
    jobs = [(layer, tile) for layer in layers(width, size) for tile in tiles(layer[1])]
    for (name, conv, side, split), tile in jobs[share::shares]:
        guarded(f"{name} {astuple(tile)}", lambda: one_layer(conv, side, split, tile, 16)[0]())  # type: ignore[arg-type, return-value]  # noqa: B023


@torch.inference_mode()
def convs(width: int, size: int, draws: int) -> dict[str, ConvTile]:
    """The fastest tile of every layer that differs."""
    best: dict[str, tuple[float, ConvTile]] = {}
    for name, conv, side, split in layers(width, size):
        for tile in tiles(conv):

            def one(name=name, conv=conv, side=side, split=split, tile=tile) -> None:
                call, wanted = one_layer(conv, side, split, tile, draws)
                off = error(poisoned(call), wanted)
                del wanted
                time_s = seconds(call)
                shape = f"{conv.in_channels}->{conv.out_channels} {side}x{side}"
                report(f"unet{width} {size} {name} {shape} {astuple(tile)}", draws, time_s, err=off)
                if off < 0.02 and (name not in best or time_s < best[name][0]):
                    best[name] = time_s, tile

            guarded(f"{name} {astuple(tile)}", one)
    print(f"sum of the best distinct layers: {sum(t for t, _ in best.values()) / draws * 1e6:.3f} us", flush=True)
    return {name: tile for name, (_, tile) in best.items()}


@torch.inference_mode()
def stages(size: int, draws: int) -> list[Tiling]:
    """Stage tilings for large maps; the fastest of each."""
    plain = fold(sane(cifar_resnet(110, 10), 32))
    chosen = []
    for stage, channels in enumerate((16, 32, 64)):
        k = size // 2**stage
        blocks = list(getattr(plain, f"layer{stage + 1}"))[-17:]
        pairs = [weights(getattr(block, name)) for block in blocks for name in ("conv1", "conv2")]
        x = torch.rand(draws, k, k, channels, device="cuda")
        wanted = reference_stage(x.permute(0, 3, 1, 2), pairs).permute(0, 2, 3, 1)
        best: tuple[float, Tiling] | None = None
        for tiling in (TILINGS[stage], *(Tiling(*cut) for cut in LARGE[channels])):  # type: ignore[arg-type]

            def one(tiling=tiling, stage=stage, x=x, wanted=wanted, blocks=blocks, name=f"stage {channels}ch {k}x{k}"):
                nonlocal best
                kernel, half = Stage(blocks, torch.bfloat16, tiling), x.bfloat16()
                off = error(poisoned(lambda: kernel(half)), wanted)
                time_s = seconds(lambda: kernel(half))
                report(f"{name} {astuple(tiling)}", draws, time_s, err=off)
                if off < 0.05 and (best is None or time_s < best[0]):
                    best = time_s, tiling

            guarded(f"stage {channels} {tiling}", one)
        chosen.append(best[1] if best else TILINGS[stage])
    return chosen


@torch.inference_mode()
def whole(name: str, network: nn.Module, fused: nn.Module, size: int, draws: int, chunk: int = 100) -> None:
    x = torch.rand(draws, 3, size, size, device="cuda")
    off = error(poisoned(lambda: fused(x)), torch.cat([network(part) for part in x.split(chunk)]))
    start = time.perf_counter()
    report(name, draws, seconds(lambda: fused(x)), err=off, batch=draws)
    ROWS[-1]["wall_s"] = round(time.perf_counter() - start, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=12, help="that compile ahead")
    parser.add_argument("--no-layers", action="store_true", help="whole networks only")
    options = parser.parse_args()
    torch.manual_seed(0)
    start = time.perf_counter()
    nets = [(32, 32, 8000), (32, 64, 2000), (32, 96, 900), (16, 224, 200)]
    try:
        best: dict[int, dict[str, ConvTile]] = {}
        if not options.no_layers:
            # each process starts torch anew, so that the kernels compile side by side
            shares = options.processes
            jobs = [(width, size, share, shares) for width, size, _ in (nets[0], nets[3]) for share in range(shares)]
            with multiprocessing.get_context("spawn").Pool(shares) as pool:
                pool.map(warm, jobs, chunksize=1)
            print(f"compiled after {time.perf_counter() - start:.0f} s", flush=True)
            best = {size: convs(width, size, draws) for width, size, draws in (nets[0], nets[3])}
        for width, size, draws in nets:
            unet = sane(UNet(width), size)
            assert isinstance(unet, UNet)
            variants = {"": None, " best tiles": best.get(32 if width == 32 else size)}
            for kind, chosen in variants.items():
                if kind == "" or chosen:

                    def one(kind=kind, chosen=chosen, unet=unet, width=width, size=size, draws=draws) -> None:
                        whole(f"unet{width} {size}{kind}", unet, FusedUNet(unet, torch.bfloat16, chosen), size, draws)

                    guarded(f"unet{width} {size}{kind}", one)
        large = stages(96, 900)
        for size, draws, tilings in ((32, 8000, TILINGS), (64, 2000, TILINGS), (96, 900, TILINGS), (96, 900, large)):
            resnet = sane(cifar_resnet(110, 10), size)
            guarded(
                f"resnet110 {size}",
                lambda: whole(
                    f"resnet110 {size} {[astuple(t) for t in tilings]}",  # noqa: B023
                    resnet,  # noqa: B023
                    FusedResNet(resnet, torch.bfloat16, tilings),  # type: ignore[arg-type]  # noqa: B023
                    size,  # noqa: B023
                    draws,  # noqa: B023
                ),
            )
    finally:
        print(f"{time.perf_counter() - start:.0f} s in all", flush=True)
        device = torch.cuda.get_device_name()
        options.out.write_text(
            json.dumps({"device": device, "torch": torch.__version__, "command": sys.argv, "rows": ROWS}, indent=1)
        )


if __name__ == "__main__":
    main()
