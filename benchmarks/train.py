"""How fast training is: the engine beside a loop as the field's scripts have it, in one run on one device.

    python benchmarks/train.py --sizes 32 64 --out train.json

The reference is eager float32 (TF32 in cuDNN, torch's default), NCHW, batch 256, images composed one by one in
DataLoader workers, loss fetched every step. Ours trains as the fast recipe says. Both train ResNet-110 and, for ARS,
the U-Net of width 32 on random bytes of the real shapes: speed does not depend on pixels. An epoch is 50,000 images;
start-up (compiling, capturing) is stated apart. The JSON says on what machine, with which versions and by which command
it was measured.
"""

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from ars.data.benchmark import Benchmark, Part
from ars.data.pasted import Material, PastedImages
from ars.recipes.build import build_model
from ars.recipes.read import read_recipe
from ars.recipes.recipe import Recipe
from ars.training.loop import Trainer
from ars.training.loss import Objective
from ars.training.progress import Progress
from ars.training.settings import Optimizer

EPOCH = 50_000
MOMENTS = [0.5] * 3, [0.25] * 3
RECIPE = Path("cifar_backgrounds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--methods", nargs="+", default=["adaptive"])
    parser.add_argument("--workers", type=int, default=min(16, os.cpu_count() or 1), help="of the reference's loader")
    parser.add_argument("--steps", type=int, default=40, help="of the reference that are timed")
    parser.add_argument("--images", type=int, default=EPOCH, help="training images (fewer for a trial)")
    parser.add_argument("--depth", type=int, default=110)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for size in options.sizes:
        for method in options.methods:
            changes = {"method": method, "data.size": size, "classifier.depth": options.depth, "train.epochs": 5}
            recipe = read_recipe(RECIPE, [f"--{key}={value}" for key, value in changes.items()])
            rows.append({"method": method, "k": size} | compare(recipe, size, device, options))
            print(json.dumps(rows[-1]), flush=True)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    about = {"device": name, "cores": os.cpu_count(), "torch": torch.__version__, "python": platform.python_version()}
    command = ["python", *sys.argv]
    if options.out:  # the file, not where on this machine it lies
        command[command.index(str(options.out))] = options.out.name
    results = about | {"command": " ".join(command), "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


def compare(recipe: Recipe, size: int, device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """Images a second of both, and what follows from that."""
    benchmark = random_benchmark(size, options.images)
    slow = reference(recipe, benchmark, device, workers=options.workers, steps=options.steps)
    epochs = engine(recipe, benchmark.to(device), device)
    fast = median(epoch.images_a_second for epoch in epochs[1:])
    return {
        "reference_images_a_second": round(slow),
        "images_a_second": round(fast),
        "ratio": round(fast / slow, 2),
        "reference_seconds_an_epoch": round(EPOCH / slow, 1),
        "seconds_an_epoch": round(EPOCH / fast, 2),
        "start_up_seconds": round(epochs[0].start_up_seconds or 0.0, 1),
        "reference_batch": REFERENCE_BATCH,
        "batch": recipe.train.batch_size,
    }


class Bytes(PastedImages):
    """Random images; their moments are stated, not measured."""

    def moments(self) -> tuple[list[float], list[float]]:
        return MOMENTS


def random_benchmark(size: int, images: int) -> Bytes:
    def part(count: int) -> Material:
        pictures = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8)
        scenes = torch.randint(256, (500, 3, size, size), dtype=torch.uint8) if size > 32 else None
        return Material(pictures, torch.randint(10, (count,)), scenes)

    material: dict[Part, Material] = {"train": part(images), "validation": part(512), "test": part(10)}
    return Bytes(material, title="random bytes", class_names=[str(i) for i in range(10)])


def engine(recipe: Recipe, benchmark: Benchmark, device: torch.device) -> list[Progress]:
    """The epochs of our loop."""
    model = build_model(recipe, benchmark, device)
    epochs: list[Progress] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model, benchmark, recipe.train, seed=0, precision="bfloat16", folder=Path(folder), identity="benchmark"
        )
        trainer.run(report=epochs.append)
    return epochs


REFERENCE_BATCH = 256


class OneByOne(Dataset[tuple[Tensor, int]]):
    """Images composed where they are asked for, as a transform would."""

    def __init__(self, material: Material) -> None:
        self.images = material.images.permute(0, 2, 3, 1).numpy()
        self.scenes = None if material.backgrounds is None else material.backgrounds.permute(0, 2, 3, 1).numpy()
        self.labels = material.labels.tolist()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index]
        if random.random() < 0.5:
            image = image[:, ::-1]
        if self.scenes is not None:
            scene = random.choice(self.scenes).copy()
            room = scene.shape[0] - image.shape[0]
            along, edge = random.randint(0, room), random.randrange(4)
            top, left = [(0, along), (room, along), (along, 0), (along, room)][edge]
            scene[top : top + 32, left : left + 32] = image
            image = scene
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float() / 255, self.labels[index]


def plain_optimizer(part: nn.Module, settings: Optimizer) -> torch.optim.Optimizer:
    lr, decay = settings.lr, settings.weight_decay
    if settings.name == "sgd":
        return torch.optim.SGD(part.parameters(), lr=lr, momentum=settings.momentum, weight_decay=decay)
    return torch.optim.AdamW(part.parameters(), lr=lr, weight_decay=decay)


def reference(recipe: Recipe, benchmark: Bytes, device: torch.device, *, workers: int, steps: int) -> float:
    """Images a second of the loop as it is usually written."""
    model = build_model(recipe, benchmark, device).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    optimizers = [
        plain_optimizer(part, settings)
        for part, settings in ((model.classifier, recipe.train.classifier), (model.mechanism, recipe.train.mask))
        if list(part.parameters())
    ]
    objective = Objective(model, "float32")
    generator = torch.Generator(device).manual_seed(0)
    loader = DataLoader(
        OneByOne(benchmark._material["train"]), batch_size=REFERENCE_BATCH, shuffle=True, num_workers=workers,
        pin_memory=device.type == "cuda", drop_last=True,
    )  # fmt: skip
    model.train()
    warm, losses, began = min(10, steps), 0.0, 0.0
    for number, (images, labels) in enumerate(loader):
        if number == warm:
            began = time.perf_counter()
        loss, _ = objective(images.to(device), labels.to(device), generator)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses += loss.item()
        if number + 1 == warm + steps:
            break
    return (number + 1 - warm) * REFERENCE_BATCH / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
