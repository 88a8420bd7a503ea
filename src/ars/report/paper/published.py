"""The paper's own figures, from the tables that lie beside this file; accuracies in percent, all as printed."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ars.report.measures import method_name, method_rank

NAMES = {
    "ars": "ARS",
    "ars_pretrain": "ARS (pretrained)",
    "cohen_original_recipe": "Cohen et al. (their own recipe)",
}
"""What the published tables call otherwise than the recipes do."""
BENCHMARKS = {"cifar_backgrounds": "cifar10_20kbg", "celeba": "celeba", "imagenet": "imagenet"}
"""The name in the published tables of a recipe's data.kind."""
CERTIFIED = ("main", "appendix")
"""The tables of certified models; the table "uncertified" is of plain votes."""

Setting = tuple[int, float, str]
"""k, sigma, and the method as the recipes call it."""


@dataclass(frozen=True)
class Accuracy:
    """A published accuracy: over seeds, at an Linf radius in pixel units, or at k = 32 on so many test images."""

    sigma: float
    method: str
    accuracy: float
    std: float | None = None
    benchmark: str = ""
    table: str = ""
    k: int = 32
    linf_radius: float = 0.0
    test_images: int = 0

    @property
    def setting(self) -> Setting:
        """Where it stands."""
        return self.k, self.sigma, recipe_method(self.method)


@dataclass(frozen=True)
class Printed:
    """A number of the paper as it is printed there."""

    mean: float
    std: float | None = None
    mark: str = ""

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + (f" ({self.std})" if self.std is not None else "") + self.mark

    @property
    def in_full(self) -> tuple[str, str]:
        """Mean and standard deviation for a program."""
        return f"{self.mean}", "" if self.std is None else f"{self.std}"


def name_of(method: str) -> str:
    """The title of a method of the published tables."""
    return NAMES.get(method) or method_name(method)


def recipe_method(method: str) -> str:
    """What the recipes call a method of the published tables.

    >>> recipe_method("ars"), recipe_method("cohen")
    ('adaptive', 'cohen')
    """
    return "adaptive" if method == "ars" else method


@cache
def rows(kind: str) -> tuple[Accuracy, ...]:
    """All standard accuracies of a benchmark, of the tables "main", "appendix" and "uncertified"."""
    return tuple(row for row in _read("standard_accuracy") if row.benchmark == BENCHMARKS.get(kind))


def points(kind: str) -> list[Accuracy]:
    """The certified accuracies that the paper's text quotes for a benchmark."""
    return [row for row in _read("certified_points") if row.benchmark == BENCHMARKS.get(kind)]


def subsets() -> list[Accuracy]:
    """CIFAR-10 without backgrounds, k = 32: standard accuracy on 200, 500 and all test images."""
    return _read("k32_subset_sizes")


def settings(kind: str, *tables: str) -> set[Setting]:
    """The settings of a benchmark in the published tables of these names."""
    return {row.setting for row in rows(kind) if row.table in tables}


def in_order(settings: Iterable[Setting]) -> list[Setting]:
    """By k, sigma and method as the tables list them."""
    return sorted(settings, key=lambda setting: (setting[0], setting[1], method_rank(setting[2])))


def value(kind: str, setting: Setting, table: str) -> Printed | None:
    """A published standard accuracy, marked where the paper's two tables differ."""
    found = {row.table: row for row in rows(kind) if row.setting == setting}
    if table not in found:
        return None
    twice = {found[name].accuracy for name in CERTIFIED if name in found}
    mark = " †" if len(twice) > 1 else ""
    return Printed(found[table].accuracy, found[table].std, mark)


def text(kind: str, setting: Setting) -> str | None:
    """The paper's standard accuracy as one text; both where its tables contradict each other.

    >>> text("celeba", (160, 0.25, "cohen")), text("digits", (24, 0.75, "cohen"))
    ('94.3 (0.5)', None)
    """
    both = [value(kind, setting, table) for table in CERTIFIED]
    printed = [value for value in both if value]
    return " or ".join(map(str, printed if printed[0].mark else printed[:1])) if printed else None


def lacking(kind: str, at: tuple[int, float], have: Iterable[str]) -> str:
    """What the paper has at a k and sigma besides these methods: "UniCR 60.2 (1.1); Súkeník et al. 45.1 (2.0)"."""
    there = {setting for setting in settings(kind, *CERTIFIED) if setting[:2] == at} - {
        (*at, method) for method in have
    }
    return "; ".join(f"{name_of(setting[2])} {text(kind, setting)}" for setting in in_order(there))


def _read(name: str) -> list[Accuracy]:
    content = (files("ars.report.paper") / "published" / f"published_{name}.csv").read_text(encoding="utf-8")
    kinds: dict[str, Callable[[str], Any]] = dict.fromkeys(("sigma", "accuracy", "std", "linf_radius"), float)
    kinds |= {"k": int, "test_images": int, "benchmark": str, "table": str, "method": str}
    lines = csv.DictReader(content.splitlines())
    return [Accuracy(**{key: kinds[key](value) for key, value in row.items() if key in kinds}) for row in lines]
