"""Standard accuracy beside the published tables: Table 1, the appendix, and Table 1 in the paper's own form."""

from collections.abc import Sequence

from ars.certification.bounds import Bound
from ars.report.measures import Spread, method_name, method_rank
from ars.report.paper.entries import Entry
from ars.report.paper.notes import CONTRADICTION, FRACTIONS, how_much, marked, notes, suffix_of, title_of, whose
from ars.report.paper.published import (
    CERTIFIED,
    PUBLISHED_NAMES,
    Setting,
    in_order,
    published_name,
    published_settings,
    published_text,
    published_value,
)
from ars.report.paper.sheet import COLUMNS, HOW, Line, Sheet, difference, how, numbers, percent, words
from ars.report.rendering import UNDECIDED

KIND = "cifar_backgrounds"


def texts(setting: Setting) -> tuple[int, str, str]:
    """The setting in a row of a table."""
    k, sigma, method = setting
    return k, f"{sigma:g}", published_name(method) if method in PUBLISHED_NAMES else method_name(method)


def entries_of(entries: Sequence[Entry], kind: str, setting: Setting) -> list[Entry | None]:
    """Our entries at a setting, one per recipe; a single None where it was not run."""
    return [entry for entry in entries if entry.first.kind == kind and entry.setting == setting] or [None]


def benchmark_of(entries: Sequence[Entry], kind: str) -> str:
    """The name for a reader of a benchmark that was run."""
    return next(entry.first.benchmark for entry in entries if entry.first.kind == kind)


def how_certified(entries: Sequence[Entry]) -> list[str]:
    """With how many seeds, images and draws, and at which alpha; where the entries differ, whose is which."""
    certified = [entry for entry in entries if entry.images]
    values = [(entry.seeds, *how(entry)) for entry in certified]
    names = ("Seeds", "certified images", "draws an image", "α")
    texts = [whose((entry, str(value[place])) for entry, value in zip(certified, values, strict=True))
             for place in range(len(names))]  # fmt: skip
    return [f"{name}: {text}" for name, text in zip(names, texts, strict=True) if text]


def table_one(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """The paper's Table 1: its twelve settings of CIFAR-10 on backgrounds."""
    title = f"Table 1: standard accuracy on {benchmark_of(entries, KIND)}{title_of(bound)}"
    return _against_paper("table-1", title, entries, KIND, bound, published_settings(KIND, "main"))


def appendix(entries: Sequence[Entry], kind: str, bound: Bound) -> Sheet:
    """All published settings of a benchmark, and ours that were not published."""
    settings = published_settings(kind, *CERTIFIED)
    settings |= {entry.setting for entry in entries if entry.first.kind == kind}
    title = f"Standard accuracy at every noise level: {benchmark_of(entries, kind)}{title_of(bound)}"
    return _against_paper(f"standard-accuracy-{kind.replace('_', '-')}", title, entries, kind, bound, settings)


def _against_paper(
    name: str, title: str, entries: Sequence[Entry], kind: str, bound: Bound, settings: set[Setting]
) -> Sheet:
    run = {entry.setting for entry in entries if entry.first.kind == kind} & settings
    published = published_settings(kind, *CERTIFIED) if bound == "cohen" else set()
    lines = [
        _line(kind, setting, entry, bound)
        for setting in in_order(settings if published else run)
        for entry in entries_of(entries, kind, setting)
    ]
    columns = (
        *numbers(paper_main="paper, main table", paper_appendix="paper, appendix"),
        *numbers(ours="ours" if published else "standard accuracy", difference="ours − paper"),
        *HOW,
        *numbers(vote="vote on the whole test set"),
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
    ours = entry.certified(bound, 0.0) if entry else Spread()
    paper = main or extra
    apart = difference(ours, paper.mean if paper else None)
    votes = percent(entry.votes) if entry else None
    return Line((*texts(setting), main, extra, percent(ours), apart, *how(entry), votes), entry)


def at_a_glance(entries: Sequence[Entry], recipe: str) -> Sheet:
    """Every cell: ours with one recipe / the paper's."""
    mine = [entry for entry in entries if (entry.first.kind, entry.first.recipe_name) == (KIND, recipe)]
    settings = published_settings(KIND, "main")
    methods = sorted({method for *_, method in settings}, key=method_rank)
    inputs = {entry.setting[:2]: entry.first.inputs for entry in mine}
    lines = []
    for k, sigma in sorted({(k, sigma) for k, sigma, _ in settings}):
        cells = (_cell(mine, (k, sigma, method)) for method in methods)
        lines.append(Line((k, f"{sigma:g}", *cells, inputs.get((k, sigma))), None))
    columns = [*COLUMNS[:2], *words(**{method: method_name(method) for method in methods}, inputs="our inputs")]
    run = {entry.setting for entry in mine} & settings
    about = f"Each cell: ours / the paper's. Recipe: {recipe}; [table-1.md](table-1.md) has the recipe of every number."
    return Sheet(
        f"table-1-glance-{recipe}",
        f"Table 1 at a glance: standard accuracy, ours with recipe {recipe} / the paper's",
        tuple(columns),
        tuple(lines),
        notes(mine, "cohen", about, CONTRADICTION),
        tuple(cell for entry in mine for cell in entry.cells),
        lead=f"{how_much(len(run), len(settings), 'cells')} {'; '.join(how_certified(mine))}.",
    )


def _cell(mine: Sequence[Entry], setting: Setting) -> str:
    [entry] = entries_of(mine, KIND, setting)
    ours = percent(entry.certified("cohen", 0.0)) if entry else None
    return f"{ours or UNDECIDED} / {published_text(KIND, setting)}"
