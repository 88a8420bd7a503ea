"""Whole networks as kernels against torch's: microseconds a draw and relative error, and what precedes them.

    PYTHONPATH=src python3 benchmarks/kernels.py --out kernels.json

For ResNet-50 the kernels take 0, 1, 2 or 4 of its stages; cuDNN, compiled, does the rest.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from ars.kernels.compiled import Half
from ars.kernels.fused_resnet import FusedResNet
from ars.kernels.fused_resnet50 import FusedResNet50
from ars.kernels.fused_unet import FusedUNet
from ars.kernels.pixels import Finish, FromImages
from ars.models import CifarResNet, Normalize, ResNet50, UNet, cifar_resnet, resnet50
from ars.smoothing import Release, minimum_variance
from timing import error, guarded, poisoned, report, sane, save, seconds

DRAWS = {32: 8000, 64: 2000, 96: 900, 224: 300}


@torch.inference_mode()
def whole(name: str, network: nn.Module, make: Callable[[], nn.Module], size: int) -> None:
    """One network on random images, compared image by image and timed."""
    x = torch.rand(DRAWS[size], 3, size, size, device="cuda")
    wanted = torch.cat([network(part) for part in torch.split(x, 100)])
    start = time.perf_counter()
    fast = make()
    for part in fast.modules():
        if isinstance(part, Half):
            part.compile_for(len(x))
    got = poisoned(lambda: fast(x)).float()
    first = time.perf_counter() - start
    worst = float(((got - wanted).flatten(1).norm(dim=1) / wanted.flatten(1).norm(dim=1)).max())
    time_s = seconds(lambda: fast(x))
    report(name, len(x), time_s, err=error(got, wanted), worst=round(worst, 4), first_s=round(first, 2))


@torch.inference_mode()
def finish(size: int) -> None:
    """Averaging, normalising and changing the layout: one kernel, or torch's operations one by one."""
    one = torch.ones((1, 1, 1, 1), device="cuda")
    shape = (DRAWS[size], 3, size, size)
    mask = torch.rand(DRAWS[size], 1, size, size, device="cuda")
    std = torch.rand(DRAWS[size], 1, 1, 1, device="cuda") + 0.1
    releases = [Release(torch.randn(shape, device="cuda"), w, s) for w, s in ((one, 0.7 * one), (mask, std))]
    normalize = Normalize([0.5, 0.4, 0.3], [0.25, 0.2, 0.3]).cuda()
    kernel = Finish(minimum_variance, normalize, torch.bfloat16)

    def plain() -> Tensor:
        image = normalize(minimum_variance(releases))
        return image.to(torch.bfloat16, memory_format=torch.channels_last)  # type: ignore[no-any-return]

    wanted = normalize(minimum_variance(releases)).permute(0, 2, 3, 1)
    off = error(poisoned(lambda: kernel(releases))[..., :3], wanted)
    report(f"finish {size}, torch", shape[0], seconds(plain))
    report(f"finish {size}, kernel", shape[0], seconds(lambda: kernel(releases)), err=off)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    bf16 = torch.bfloat16
    for size in DRAWS:
        guarded(f"finish {size}", partial(finish, size))
    for width, size in ((32, 32), (32, 64), (32, 96), (16, 224)):
        unet = sane(UNet(width), size)
        assert isinstance(unet, UNet)
        make = partial(lambda unet: FromImages(FusedUNet(unet, bf16), bf16), unet)
        guarded(f"unet{width} {size}", partial(whole, f"unet{width} {size}", unet, make, size))
    for size in (32, 64, 96):
        resnet = sane(cifar_resnet(110, 10), size)
        assert isinstance(resnet, CifarResNet)
        build = partial(lambda resnet: FromImages(FusedResNet(resnet, bf16), bf16), resnet)
        guarded(f"resnet110 {size}", partial(whole, f"resnet110 {size}", resnet, build, size))
    deep = sane(resnet50(1000), 224)
    assert isinstance(deep, ResNet50)
    guarded("resnet50 compiled", partial(whole, "resnet50 224, compiled", deep, partial(Half, deep), 224))
    for stages in (0, 1, 2, 4):
        name = f"resnet50 224, {stages} stages"
        variant = partial(lambda stages, deep: FromImages(FusedResNet50(deep, bf16, stages=stages), bf16), stages, deep)
        guarded(name, partial(whole, name, deep, variant, 224))
    save(options.out)


if __name__ == "__main__":
    main()
