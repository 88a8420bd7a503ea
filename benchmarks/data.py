"""How fast the benchmarks come: composing on the device beside a training step, and decoding in worker processes.

    python benchmarks/data.py compose --out compose.json       CIFAR-10 on backgrounds, and an ARS step on a GPU
    python benchmarks/data.py decode --out decode.json         CelebA and ImageNet, by number of workers

Composing is measured on random bytes of the real shapes: no data is needed, and its speed does not depend on pixels.
Decoding uses what ARS_DATA holds. The JSON says on what machine, with which versions, by which command and at which
load it was measured. Every figure is the best of several rounds.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import PIL
import torch
from torch.nn import functional as F

from ars.data.benchmark import Labelled, Part
from ars.data.celeba import celeba
from ars.data.decoding import DecodedImages, Pictures
from ars.data.image_files import decode
from ars.data.imagenet import imagenet
from ars.data.pasted import Material, PastedImages
from ars.data.settings import DataError
from ars.kernels.precision import autocast, choose_precision
from ars.recipes.build import build_model
from ars.recipes.recipe import Classifier, Mask, Recipe
from ars.training.optimizers import make_optimizers
from ars.workflows.hardware import choose_device

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compose", "decode"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--size", type=int, default=64, help="k of CIFAR-10 on backgrounds")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of decoding processes")
    parser.add_argument("--out", type=Path, help="where the JSON goes, besides the terminal")
    options = parser.parse_args()
    device = choose_device(options.device)
    before = os.getloadavg()[0]
    if options.what == "compose":
        results: dict[str, Any] = compose(device, options.size, options.batch)
    else:
        results = {name: decoding(open_, options.workers, options.batch) for name, open_ in DECODED.items()}
    text = json.dumps({**about(device), "load_before": before, "results": results}, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


def compose(device: torch.device, k: int, batch: int) -> dict[str, Any]:
    """Seconds a training batch, and beside an ARS step where there is a GPU (it takes minutes on a CPU)."""
    benchmark = random_bytes(k, device)
    batches = endless(benchmark, batch)
    many = 20 if device.type == "cpu" else 200
    seconds = best(lambda: list(map(len, islice(batches, many))), device) / many
    results = {"k": k, "batch": batch, "seconds_a_batch": seconds, "images_a_second": batch / seconds}
    if device.type != "cpu":
        step = training_step(benchmark, device)
        fixed = next(batches)
        alone = best(lambda: [step(*fixed) for _ in range(10)], device) / 10
        fed = best(lambda: [step(*next(batches)) for _ in range(10)], device) / 10
        results |= {"seconds_a_step": alone, "seconds_a_step_composed": fed, "share_of_a_step": seconds / alone}
    return results


def random_bytes(k: int, device: torch.device) -> PastedImages:
    """Bytes in the shapes of CIFAR-10 and of the scene backgrounds."""
    sizes: dict[Part, tuple[int, int]] = {"train": (49_000, 7_014), "validation": (1_000, 369), "test": (10_000, 1_895)}
    material: dict[Part, Material] = {}
    for part, (images, backgrounds) in sizes.items():
        shown = torch.randint(256, (images, 3, 32, 32), dtype=torch.uint8)
        behind = torch.randint(256, (backgrounds, 3, k, k), dtype=torch.uint8) if k > 32 else None
        material[part] = Material(shown, torch.randint(10, (images,)), behind)
    names = [str(label) for label in range(10)]
    return PastedImages(material, title=f"random bytes, k = {k}", class_names=names, device=device)


def training_step(benchmark: PastedImages, device: torch.device) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A step of the paper's CIFAR-10 training: ResNet-110, U-Net of width 32, two noise steps, both optimisers."""
    recipe = replace(Recipe(), classifier=Classifier("cifar_resnet", depth=110), mask=Mask(width=32))
    model = build_model(recipe, benchmark, device).train()
    optimizers = make_optimizers(model, recipe.train)
    precision = choose_precision("auto", device)
    generator = torch.Generator(device).manual_seed(0)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        with autocast(device, precision):
            logits = model(images.to(memory_format=torch.channels_last), generator).float()
        F.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers.values():
            optimizer.step()

    return step


def decoding(open_: Callable[..., DecodedImages], workers: list[int], batch: int) -> list[dict[str, Any]] | str:
    """Images a second by number of processes: through the benchmark, the same views without it, and bare decoding.

    The benchmark's workers give bytes, which become floats on the device that trains; as_floats does that here.
    A round is a whole epoch: it begins and ends with nothing prefetched. Parts of one would be flattered by batches
    that were decoded before the clock started. The three take turns, so that other work on the machine meets all.
    """
    rows = []
    for processes in workers:
        try:
            benchmark = open_(workers=processes)
        except DataError as error:
            return f"not measured: {error}"
        size = benchmark.train_size()
        small = max(1, min(batch, size // (8 * processes)))  # every worker gets several batches
        seconds: dict[str, list[float]] = {"benchmark": [], "as_floats": [], "same_views": [], "bare_decoding": []}
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            shares = [(benchmark._pictures, range(number, size, processes)) for number in range(processes)]
            for _ in range(ROUNDS + 1):
                for name, give in (("benchmark", benchmark.train_bytes), ("as_floats", benchmark.train_batches)):
                    epoch = give(0, seed=0, batch_size=small)
                    seconds[name].append(seconds_of(partial(deque, epoch, maxlen=0)) * size / (size // small * small))
                seconds["same_views"].append(seconds_of(partial(pool.starmap, make_views, shares, 1)))
                seconds["bare_decoding"].append(seconds_of(partial(pool.starmap, decode_files, shares, 1)))
        rates = {name: size / min(every[1:]) for name, every in seconds.items()}  # the first round starts the workers
        share = rates["benchmark"] / rates["same_views"]
        rows.append({"workers": processes, "batch": small, **rates, "benchmark_of_same_views": share})
    return rows


def make_views(pictures: Pictures, indices: range) -> None:
    for index in indices:
        pictures.view("train", index, (0, 0, index))


def decode_files(pictures: Any, indices: range) -> None:
    for index in indices:
        name = pictures.names["train"][index].decode()
        decode(pictures.files.read(name), name)


def endless(benchmark: PastedImages, batch: int) -> Iterator[Labelled]:
    """Training batches, epoch after epoch."""
    return (pair for epoch in count() for pair in benchmark.train_batches(epoch, seed=0, batch_size=batch))


def best(work: Callable[[], Any], device: torch.device) -> float:
    """The fastest of several rounds, after one to warm up, the device's work included."""

    def whole() -> None:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    whole()
    return min(seconds_of(whole) for _ in range(ROUNDS))


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def about(device: torch.device) -> dict[str, Any]:
    """The machine, the versions and the command."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    versions = {"python": platform.python_version(), "torch": torch.__version__, "pillow": PIL.__version__}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = torch.get_num_threads()
    command = " ".join(["python", "benchmarks/data.py", *sys.argv[1:]])
    return {"device": name, "cores": cores, "torch_threads": threads, "versions": versions, "command": command}


DECODED: dict[str, Callable[..., DecodedImages]] = {"CelebA": celeba, "ImageNet": imagenet}

if __name__ == "__main__":
    main()
