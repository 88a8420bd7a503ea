"""From the benchmark part of a recipe to the benchmark."""

from typing import assert_never

import torch

from ars.data.benchmark import Benchmark
from ars.data.settings import Data


def open_benchmark(settings: Data, device: torch.device | None = None) -> Benchmark:
    """The benchmark, its tensors or batches on the device."""
    options = settings.options
    if settings.kind == "digits":
        from ars.data.digits import DigitsOnPhotographs

        return DigitsOnPhotographs(**options, device=device)
    if settings.kind == "cifar_backgrounds":
        from ars.data.cifar_backgrounds import cifar_on_backgrounds

        return cifar_on_backgrounds(k=options.pop("size"), **options, device=device)
    if settings.kind == "celeba":
        from ars.data.celeba import celeba

        return celeba(**options, device=device)
    if settings.kind == "imagenet":
        from ars.data.imagenet import imagenet

        return imagenet(**options, device=device)
    if settings.kind == "folder":
        from ars.data.folder import folder

        return folder(**options, device=device)
    assert_never(settings.kind)
