"""Which tiles suit the kernels: every layer of the U-Nets and every ResNet stage by itself, with several tiles each.

    PYTHONPATH=src python3 benchmarks/tiles.py --out tiles.json

The fastest are the choices in ars.kernels.layers.tile_for and ars.kernels.fused_resnet.TILINGS.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ars.kernels.fold import fold
from ars.kernels.fused_resnet import TILINGS, Stage
from ars.kernels.layers import Conv, tile_for
from ars.kernels.layout import ConvTile, Tiling
from ars.models import UNet, cifar_resnet
from timing import error, guarded, poisoned, report, sane, save, seconds

NARROW = [(2, 2, 128, 64, 64, 4, 2), (2, 2, 128, 64, 64, 4, 3), (1, 2, 128, 64, 64, 4, 3), (2, 2, 256, 64, 64, 8, 2)]
MIDDLE = [(1, 2, 128, 64, 64, 4, 2), (1, 2, 128, 64, 64, 4, 3), (1, 2, 256, 64, 64, 8, 3), (2, 2, 128, 128, 64, 8, 2)]
PIXEL = [
    (1, 1, 128, 128, 64, 4, 3), (1, 1, 128, 128, 64, 8, 3), (1, 1, 256, 128, 64, 8, 3), (1, 1, 128, 64, 64, 4, 4),
    (1, 1, 64, 128, 64, 4, 3), (1, 1, 128, 128, 128, 8, 3),
]  # fmt: skip
# stage tilings for maps too large for the L2 cache at two programs a multiprocessor, by channels
LARGE: dict[int, list[tuple[int, int, int, int, int, int, int, int | None]]] = {
    16: [(1, 2, 2, 256, 8, 3, 1, None), (1, 2, 2, 128, 8, 3, 1, None), (1, 2, 2, 128, 4, 3, 1, None)],
    32: [(1, 1, 2, 128, 8, 3, 1, None), (1, 1, 2, 256, 8, 2, 1, None), (1, 1, 2, 256, 16, 2, 1, None)],
    64: [(1, 1, 1, 128, 8, 3, 2, 128), (1, 1, 1, 64, 4, 3, 4, None), (1, 1, 1, 64, 4, 3, 3, None)],
}


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
    kernel, mode = conv.kernel_size[0], conv.padding_mode
    conv = nn.Conv2d(conv.in_channels, conv.out_channels, kernel, conv.stride[0], kernel // 2, padding_mode=mode)
    conv.cuda()  # with a bias
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


def compile_one(job: tuple[nn.Conv2d, int, int, ConvTile]) -> None:
    """Compile one kernel into the disk cache."""
    with torch.inference_mode():
        guarded("compile", lambda: one_layer(*job, draws=16)[0]())


def time_layer(name: str, conv: nn.Conv2d, side: int, split: int, tile: ConvTile, draws: int) -> None:
    call, wanted = one_layer(conv, side, split, tile, draws)
    off = error(poisoned(call), wanted)
    del wanted
    shape = f"{conv.in_channels}->{conv.out_channels} {side}x{side}"
    report(f"{name} {shape} {astuple(tile)}", draws, seconds(call), err=off)


def time_stage(name: str, blocks: list[nn.Module], tiling: Tiling, x: Tensor, wanted: Tensor) -> None:
    kernel, half = Stage(blocks, torch.bfloat16, tiling), x.bfloat16()
    off = error(poisoned(lambda: kernel(half)), wanted)
    report(f"{name} {astuple(tiling)}", len(x), seconds(lambda: kernel(half)), err=off)


@torch.inference_mode()
def stages(size: int, draws: int) -> None:
    """Stage tilings for maps that are large for the L2 cache."""
    plain = fold(sane(cifar_resnet(110, 10), 32))
    for stage, channels in enumerate((16, 32, 64)):
        k = size // 2**stage
        blocks = list(getattr(plain, f"layer{stage + 1}"))[-17:]
        x = torch.rand(draws, k, k, channels, device="cuda")
        wanted = nn.Sequential(*blocks)(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        for tiling in (TILINGS[stage], *(Tiling(*cut) for cut in LARGE[channels])):
            name = f"stage {channels}ch {k}x{k}"
            guarded(f"{name} {tiling}", partial(time_stage, name, blocks, tiling, x, wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=12, help="that compile ahead")
    options = parser.parse_args()
    torch.manual_seed(0)
    start = time.perf_counter()
    nets = {(width, size): layers(width, size) for width, size in ((32, 32), (16, 224))}
    # each process starts torch anew, so that the kernels compile side by side
    jobs = [(conv, side, split, t) for net in nets.values() for _, conv, side, split in net for t in tiles(conv)]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        pool.map(compile_one, jobs, chunksize=4)
    print(f"compiled after {time.perf_counter() - start:.0f} s", flush=True)
    for (width, size), net in nets.items():
        for name, conv, side, split in net:
            for tile in tiles(conv):
                full = f"unet{width} {size} {name}"
                draws = 8000 if size == 32 else 200
                with torch.inference_mode():
                    guarded(f"{full} {tile}", partial(time_layer, full, conv, side, split, tile, draws))
    stages(96, 900)
    save(options.out)


if __name__ == "__main__":
    main()
