"""CIFAR-10 on backgrounds (the paper's 20kBG): 32x32 images along the border of k x k scenes; k = 32 is CIFAR-10."""

import torch

from ars.data.backgrounds import Backgrounds, load_backgrounds
from ars.data.benchmark import held_out
from ars.data.cifar10 import CLASSES, SIDE, Cifar10, load_cifar10
from ars.data.locate import CIFAR10, locate
from ars.data.pasted import Material, PastedImages
from ars.data.settings import DataError

HELD_OUT = 0.02  # of the 50,000 training images, for validation


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
    onto = scenes.parts() if scenes else {}
    return PastedImages(
        {
            "train": Material(cifar.train[train], cifar.train_labels[train], onto.get("train")),
            "validation": Material(cifar.train[validation], cifar.train_labels[validation], onto.get("validation")),
            "test": Material(cifar.test, cifar.test_labels, onto.get("test")),
        },
        title=f"CIFAR-10 on {scenes.name}, k = {scenes.test.shape[-1]}" if scenes else "CIFAR-10",
        class_names=CLASSES,
        seed=seed,
        digest=f"{cifar.digest} {scenes.digest if scenes else ''}",
        padding=padding,
        device=device,
    )
