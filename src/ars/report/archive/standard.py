"""Standard accuracy beside the published tables: Table 1 and the appendix."""

from collections.abc import Sequence

from ars.certification.bounds import Bound
from ars.report.archive.comparable import marked
from ars.report.archive.entries import Entry
from ars.report.archive.notes import CONTRADICTION, FRACTIONS, how_much, notes, suffix_of, title_of
from ars.report.archive.settings import (
    COLUMNS,
    Setting,
    benchmark_of,
    entries_of,
    images_text,
    in_order,
    published_settings,
    published_value,
    setting_of,
    texts,
)
from ars.report.archive.sheet import Column, Line, Sheet, difference, percent
from ars.report.measures import Spread


def table_one(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """The paper's Table 1: its twelve settings of CIFAR-10 on backgrounds."""
    kind = "cifar_backgrounds"
    title = f"Table 1: standard accuracy on {benchmark_of(entries, kind)}{title_of(bound)}"
    return _against_paper("table-1", title, entries, kind, bound, published_settings(kind, "main"))


def appendix(entries: Sequence[Entry], kind: str, bound: Bound) -> Sheet:
    """All published settings of a benchmark, and ours that were not published."""
    settings = published_settings(kind, "main", "appendix")
    settings |= {setting_of(entry) for entry in entries if entry.first.kind == kind}
    title = f"Standard accuracy at every noise level: {benchmark_of(entries, kind)}{title_of(bound)}"
    return _against_paper(f"standard-accuracy-{kind.replace('_', '-')}", title, entries, kind, bound, settings)


def _against_paper(
    name: str, title: str, entries: Sequence[Entry], kind: str, bound: Bound, settings: set[Setting]
) -> Sheet:
    run = {setting_of(entry) for entry in entries if entry.first.kind == kind} & settings
    published = published_settings(kind, "main", "appendix") if bound == "cohen" else set()
    lines = [
        _line(kind, setting, entry, bound)
        for setting in in_order(settings if published else run)
        for entry in entries_of(entries, kind, setting)
    ]
    columns = (
        Column("paper, main table", "paper_main"),
        Column("paper, appendix", "paper_appendix"),
        Column("ours" if published else "standard accuracy", "ours"),
        Column("ours − paper", "difference"),
        Column("images", "images", number=False),
        Column("draws", "draws", number=False),
        Column("α", "alpha", number=False),
        Column("vote on the whole test set", "vote"),
    )
    more = ["The difference is to the main table where it has the setting, else to the appendix."] if published else []
    contradicted = any(str(value).endswith("†") for line in lines for value in line.values)
    more += [CONTRADICTION] if published and contradicted else []
    more += [FRACTIONS] if kind == "imagenet" else []
    shown = [line.entry for line in lines if line.entry]
    lead = how_much(len(run), len(settings), "settings") if published else ""
    told = notes(shown, bound, *more)
    sheet = Sheet(name + suffix_of(bound), title, (*COLUMNS, *columns), tuple(lines), told, lead=lead)
    return marked(sheet if published else sheet.without("paper_main", "paper_appendix", "difference"))


def _line(kind: str, setting: Setting, entry: Entry | None, bound: Bound) -> Line:
    main, extra = (published_value(kind, setting, table) for table in ("main", "appendix"))
    ours = entry.certified(bound, 0.0) if entry else Spread(())
    paper = main or extra
    values = (
        main,
        extra,
        percent(ours),
        difference(ours, paper.mean if paper else None),
        images_text(entry),
        entry.draws if entry else None,
        entry.alpha if entry else None,
        percent(entry.votes) if entry else None,
    )
    return Line((*texts(setting), *values), entry)
