"""A setting of the paper's tables, k, sigma and method, with its published numbers and our entries."""

from collections.abc import Iterable, Sequence

from ars.report.archive.comparable import whose
from ars.report.archive.entries import Entry
from ars.report.archive.sheet import Column, Printed
from ars.report.groups import method_name, method_rank
from ars.report.published import PUBLISHED_NAMES, published_name, published_rows, recipe_method

Setting = tuple[int, float, str]
"""k, sigma, and the method as the recipes call it."""

COLUMNS = (Column("k", "k", number=False), Column("σ", "sigma", number=False), Column("method", "method", number=False))

WHERE = (Column("benchmark", "benchmark", number=False), *COLUMNS)
"""What COLUMNS are in a table of several benchmarks."""


def where(entry: Entry) -> tuple[str, int, str, str]:
    """Benchmark and setting of ours, under the headings of WHERE."""
    return entry.first.benchmark, entry.first.k, f"{entry.first.sigma:g}", entry.label


def published_settings(kind: str, *tables: str) -> set[Setting]:
    """The settings of a benchmark in the published tables of these names."""
    rows = (row for row in published_rows(kind) if row.table in tables)
    return {(row.k, row.sigma, recipe_method(row.method)) for row in rows}


def setting_of(entry: Entry) -> Setting:
    """The setting of ours."""
    return entry.first.k, entry.first.sigma, entry.first.method


def in_order(settings: Iterable[Setting]) -> list[Setting]:
    """By k, sigma and method as the paper lists them."""
    return sorted(settings, key=lambda setting: (setting[0], setting[1], method_rank(setting[2])))


def texts(setting: Setting) -> tuple[int, str, str]:
    """The setting in a row of a table."""
    k, sigma, method = setting
    return k, f"{sigma:g}", published_name(method) if method in PUBLISHED_NAMES else method_name(method)


def entries_of(entries: Sequence[Entry], kind: str, setting: Setting) -> list[Entry | None]:
    """Ours at a setting, one a recipe; a single None where it was not run."""
    return [entry for entry in entries if entry.first.kind == kind and setting_of(entry) == setting] or [None]


def published_value(kind: str, setting: Setting, table: str) -> Printed | None:
    """A published standard accuracy, marked where the paper's two tables differ."""
    rows = [row for row in published_rows(kind) if (row.k, row.sigma, recipe_method(row.method)) == setting]
    found = {row.table: row for row in rows}
    if table not in found:
        return None
    twice = {found[name].accuracy for name in ("main", "appendix") if name in found}
    mark = " †" if len(twice) > 1 else ""
    return Printed(found[table].accuracy, found[table].std, mark)


def published_text(kind: str, setting: Setting) -> str | None:
    """The paper's standard accuracy as one text; both where its tables contradict each other."""
    both = [published_value(kind, setting, table) for table in ("main", "appendix")]
    printed = [value for value in both if value]
    return " or ".join(map(str, printed if printed[0].mark else printed[:1])) if printed else None


def benchmark_of(entries: Sequence[Entry], kind: str) -> str:
    """The name for a reader of a benchmark that was run."""
    return next(entry.first.benchmark for entry in entries if entry.first.kind == kind)


def images_text(entry: Entry | None) -> str | None:
    """How many images were certified, with a star where more are to come."""
    return None if entry is None or entry.images is None else f"{entry.images}{'*' if entry.missing else ''}"


def how_certified(entries: Sequence[Entry]) -> list[str]:
    """With how many seeds, images and draws, and at which alpha; where the entries differ, whose is which."""
    certified = [entry for entry in entries if entry.images]
    counted: dict[str, list[str | None]] = {
        "Seeds": [entry.seeds for entry in certified],
        "certified images": [images_text(entry) for entry in certified],
        "draws an image": [entry.draws for entry in certified],
        "α": [entry.alpha for entry in certified],
    }
    told = {name: whose(zip(certified, map(str, values), strict=True)) for name, values in counted.items()}
    return [f"{name}: {text}" for name, text in told.items() if text]
