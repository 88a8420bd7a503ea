"""The paper's own figures, from the tables that lie beside this file; accuracies in percent."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ars.report.groups import method_name

# What the published tables call otherwise than the recipes do.
PUBLISHED_NAMES = {"ars": "ARS", "ars_pretrain": "ARS (pretrained)"}


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
        return PUBLISHED_NAMES.get(self.method, method_name(self.method))


def published_standard_accuracy(benchmark: str, *, k: int, sigma: float) -> list[Published]:
    """The certified models' standard accuracies at image size k: of the main table, or else of the appendix.

    >>> [row.accuracy for row in published_standard_accuracy("celeba", k=160, sigma=0.25)]
    [94.3, 93.0, 97.0]
    """
    rows = [row for row in _all_rows() if (row.benchmark, row.k, row.sigma) == (benchmark, k, sigma)]
    main = [row for row in rows if row.table == "main"]
    return main or [row for row in rows if row.table == "appendix"]


@cache
def _all_rows() -> tuple[Published, ...]:
    text = (files("ars.report") / "published" / "published_standard_accuracy.csv").read_text(encoding="utf-8")
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
        for row in csv.DictReader(text.splitlines())
    )
