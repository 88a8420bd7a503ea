"""CIFAR-10, and CIFAR-10 on backgrounds (the paper's 20kBG): 32x32 images along the border of k x k scenes.

The images come from the binary batches, which are checked against their published SHA-1.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ars.data.backgrounds import Backgrounds, load_backgrounds
from ars.data.benchmark import Part, held_out
from ars.data.locate import CIFAR10, locate
from ars.data.pasted import Material, PastedImages
from ars.data.settings import DataError

FOLDER, PICKLED = CIFAR10
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
ROW = 1 + 3 * SIDE * SIDE
TEST = "test_batch"
HELD_OUT = 0.02  # of the 50,000 training images, for validation


@dataclass(frozen=True)
class Layout:
    """The number of rows per batch, and the SHA-1 of each; tests use smaller batches than the published ones."""

    sha1: Mapping[str, str]
    rows: int = 10_000


PUBLISHED = Layout(
    {
        "data_batch_1": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "data_batch_2": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
        "data_batch_3": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
        "data_batch_4": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
        "data_batch_5": "26e2849e66a845b7f1e4614ae70f4889ae604628",
        TEST: "67eb016db431130d61cd03c7ad570b013799c88c",
    }
)


@dataclass(frozen=True)
class Cifar10:
    """The images in their original order, with a digest of all batches."""

    train: UInt8[Tensor, "n 3 32 32"]
    train_labels: Int[Tensor, " n"]
    test: UInt8[Tensor, "m 3 32 32"]
    test_labels: Int[Tensor, " m"]
    digest: str


def load_cifar10(root: Path, layout: Layout = PUBLISHED) -> Cifar10:
    """Read the batches below root, each of the right length and with its published SHA-1."""
    folder = batches_folder(root)
    batches = [_split(read_batch(folder / f"{name}.bin", name, layout)) for name in layout.sha1 if name != TEST]
    test, test_labels = _split(read_batch(folder / f"{TEST}.bin", TEST, layout))
    train, train_labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    digest = hashlib.sha256("".join(layout.sha1.values()).encode()).hexdigest()
    return Cifar10(train, train_labels, test, test_labels, digest)


def batches_folder(root: Path) -> Path:
    """The folder of the binary batches: root itself or its default subfolder."""
    for folder in (root / FOLDER, root):
        if (folder / f"{TEST}.bin").is_file():
            return folder
    pickled = next((folder for folder in (root / PICKLED, root) if (folder / TEST).is_file()), None)
    if pickled:
        raise DataError(
            f"{pickled} holds the pickled layout of CIFAR-10, but the binary one is expected; convert it, without "
            f"running its code, by 'ars data get cifar10 --from {pickled} --root {pickled.parent}'"
        )
    raise DataError(
        f"CIFAR-10 is expected as {root / FOLDER}/*.bin, found no {TEST}.bin; run 'ars data get cifar10 --root DIR'"
    )


def read_batch(path: Path, name: str, layout: Layout = PUBLISHED) -> bytes:
    """The rows of a batch file, checked."""
    if not path.is_file():
        raise DataError(f"{path}, one of the {len(layout.sha1)} batches of CIFAR-10, is missing; run 'ars data get'")
    rows = path.read_bytes()
    check_rows(rows, name, layout, found=str(path))
    return rows


def check_rows(rows: bytes, name: str, layout: Layout, *, found: str) -> None:
    """Refuse rows that differ from the published batch of this name."""
    digest = hashlib.sha1(rows, usedforsecurity=False).hexdigest()
    if digest != layout.sha1[name]:
        raise DataError(
            f"{found} has {len(rows):,} bytes with SHA-1 {digest}, expected {layout.rows:,} rows of {ROW:,} bytes "
            f"with {layout.sha1[name]} for {name}; remove it and run 'ars data get cifar10'"
        )


def _split(rows: bytes) -> tuple[UInt8[Tensor, "n 3 32 32"], Int[Tensor, " n"]]:
    table = torch.from_numpy(np.frombuffer(rows, dtype=np.uint8).copy()).view(-1, ROW)
    return table[:, 1:].reshape(-1, 3, SIDE, SIDE), table[:, 0].long()


def cifar_on_backgrounds(
    *,
    size: int,
    seed: int = 0,
    root: str | None = None,
    backgrounds: str | None = None,
    padding: int = 0,
    device: torch.device | None = None,
) -> PastedImages:
    """The benchmark, from what the recipe or ARS_DATA names; size is k."""
    if size < SIDE:
        raise DataError(f"k must be at least {SIDE}, the side of CIFAR-10 images, got k = {size}")
    if size == SIDE and backgrounds is not None:
        raise DataError(f"k = {SIDE} is plain CIFAR-10 and takes no backgrounds; leave data.backgrounds out")
    where = locate(root, CIFAR10, what="the CIFAR-10 batches", key="data.root")
    scenes = load_backgrounds(backgrounds, size) if size > SIDE else None
    return compose_cifar(load_cifar10(where), scenes, seed=seed, padding=padding, device=device)


def compose_cifar(
    cifar: Cifar10, scenes: Backgrounds | None, *, seed: int = 0, padding: int = 0, device: torch.device | None = None
) -> PastedImages:
    """The benchmark from its two sources; without scenes, plain CIFAR-10."""
    train, validation = held_out(len(cifar.train), HELD_OUT)
    onto: Mapping[Part, Tensor] = scenes.parts if scenes else {}
    return PastedImages(
        {
            "train": Material(cifar.train[train], cifar.train_labels[train], onto.get("train")),
            "validation": Material(cifar.train[validation], cifar.train_labels[validation], onto.get("validation")),
            "test": Material(cifar.test, cifar.test_labels, onto.get("test")),
        },
        title=f"CIFAR-10 on {scenes.name}, k = {scenes.parts['test'].shape[-1]}" if scenes else "CIFAR-10",
        class_names=CLASSES,
        seed=seed,
        digest=f"{cifar.digest} {scenes.digest if scenes else ''}",
        padding=padding,
        device=device,
    )
