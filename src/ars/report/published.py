"""The paper's own figures, from the tables that lie beside this file; accuracies in percent, all as printed."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ars.report.groups import method_name

# What the published tables call otherwise than the recipes do.
PUBLISHED_NAMES = {
    "ars": "ARS",
    "ars_pretrain": "ARS (pretrained)",
    "cohen_original_recipe": "Cohen et al. (their own recipe)",
}
PUBLISHED_BENCHMARKS = {"cifar_backgrounds": "cifar10_20kbg", "celeba": "celeba", "imagenet": "imagenet"}
"""The name in the published tables of a recipe's data.kind."""


@dataclass(frozen=True)
class Published:
    """A published standard accuracy with its standard deviation over seeds, both in percent."""

    benchmark: str
    table: str
    k: int
    sigma: float
    method: str
    accuracy: float
    std: float

    @property
    def label(self) -> str:
        """The method's name for a reader."""
        return published_name(self.method)


@dataclass(frozen=True)
class PublishedPoint:
    """A certified accuracy in percent that the paper's text quotes at an Linf radius, in pixel units."""

    benchmark: str
    sigma: float
    radius: float
    method: str
    accuracy: float


@dataclass(frozen=True)
class PublishedSubset:
    """A published standard accuracy at k = 32 on so many test images, with its standard deviation, in percent."""

    sigma: float
    images: int
    method: str
    accuracy: float
    std: float


def published_name(method: str) -> str:
    """The name for a reader of a method of the published tables."""
    return PUBLISHED_NAMES.get(method, method_name(method))


def recipe_method(method: str) -> str:
    """What the recipes call a method of the published tables.

    >>> recipe_method("ars"), recipe_method("cohen")
    ('adaptive', 'cohen')
    """
    return "adaptive" if method == "ars" else method


def published_standard_accuracy(kind: str, *, k: int, sigma: float) -> list[Published]:
    """The certified models' standard accuracies at image size k: of the main table, or else of the appendix.

    >>> [row.accuracy for row in published_standard_accuracy("celeba", k=160, sigma=0.25)]
    [94.3, 93.0, 97.0]
    """
    rows = [row for row in published_rows(kind) if (row.k, row.sigma) == (k, sigma)]
    main = [row for row in rows if row.table == "main"]
    return main or [row for row in rows if row.table == "appendix"]


@cache
def published_rows(kind: str) -> tuple[Published, ...]:
    """All standard accuracies of a benchmark, of the tables "main", "appendix" and "uncertified" (by plain vote)."""
    return tuple(
        Published(
            benchmark=row["benchmark"],
            table=row["table"],
            k=int(row["k"]),
            sigma=float(row["sigma"]),
            method=row["method"],
            accuracy=float(row["accuracy"]),
            std=float(row["std"]),
        )
        for row in _read("standard_accuracy")
        if row["benchmark"] == PUBLISHED_BENCHMARKS.get(kind)
    )


@cache
def published_points(kind: str) -> tuple[PublishedPoint, ...]:
    """The certified accuracies that the paper's text quotes for a benchmark."""
    return tuple(
        PublishedPoint(
            benchmark=row["benchmark"],
            sigma=float(row["sigma"]),
            radius=float(row["linf_radius"]),
            method=row["method"],
            accuracy=float(row["certified_accuracy"]),
        )
        for row in _read("certified_points")
        if row["benchmark"] == PUBLISHED_BENCHMARKS.get(kind)
    )


@cache
def published_subsets() -> tuple[PublishedSubset, ...]:
    """CIFAR-10 without backgrounds, k = 32: standard accuracy on 200, 500 and all test images."""
    return tuple(
        PublishedSubset(
            sigma=float(row["sigma"]),
            images=int(row["test_images"]),
            method=row["method"],
            accuracy=float(row["accuracy"]),
            std=float(row["std"]),
        )
        for row in _read("k32_subset_sizes")
    )


def _read(name: str) -> list[dict[str, str]]:
    text = (files("ars.report") / "published" / f"published_{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
