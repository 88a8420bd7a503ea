"""Standard accuracy beside the published tables: Table 1, the appendix, and Table 1 in the paper's own form."""

from collections.abc import Sequence

from ars.certification.bounds import Bound
from ars.report.measures import method_name, method_rank
from ars.report.paper import published
from ars.report.paper.entries import NOT_RUN, Entry
from ars.report.paper.notes import CONTRADICTION, FRACTIONS, annotated, how_much, notes, suffix_of, title_of, whose
from ars.report.paper.published import CERTIFIED, Setting
from ars.report.paper.sheet import COLUMNS, HOW, Line, Sheet, Value, difference, how, numbers, percent, words
from ars.report.rendering import UNDECIDED

KIND = "cifar_backgrounds"


def texts(setting: Setting) -> dict[str, Value]:
    """The setting in a row of a table, under the headings of COLUMNS."""
    k, sigma, method = setting
    name = published.name_of(method) if method in published.NAMES else method_name(method)
    return {"k": k, "sigma": f"{sigma:g}", "method": name}


def entries_of(entries: Sequence[Entry], kind: str, setting: Setting) -> list[Entry]:
    """Our entries at a setting, one per recipe; NOT_RUN alone where there is none."""
    return [entry for entry in entries if entry.first.kind == kind and entry.setting == setting] or [NOT_RUN]


def benchmark_of(entries: Sequence[Entry], kind: str) -> str:
    """The name for a reader of a benchmark that was run."""
    return next(entry.first.benchmark for entry in entries if entry.first.kind == kind)


def how_certified(entries: Sequence[Entry]) -> list[str]:
    """With how many seeds, images and draws, and at which alpha; where the entries differ, whose is which."""
    certified = [(entry, {"seeds": entry.seeds, **how(entry)}) for entry in entries if entry.images]
    names = {"seeds": "Seeds", "images": "certified images", "draws": "draws an image", "alpha": "α"}
    texts = {name: whose((entry, str(values[key])) for entry, values in certified) for key, name in names.items()}
    return [f"{name}: {text}" for name, text in texts.items() if text]


def table_one(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """The paper's Table 1: its twelve settings of CIFAR-10 on backgrounds."""
    title = f"Table 1: standard accuracy on {benchmark_of(entries, KIND)}{title_of(bound)}"
    return _against_paper("table-1", title, entries, KIND, bound, published.settings(KIND, "main"))


def appendix(entries: Sequence[Entry], kind: str, bound: Bound) -> Sheet:
    """All published settings of a benchmark, and ours that were not published."""
    settings = published.settings(kind, *CERTIFIED)
    settings |= {entry.setting for entry in entries if entry.first.kind == kind}
    title = f"Standard accuracy at every noise level: {benchmark_of(entries, kind)}{title_of(bound)}"
    return _against_paper(f"standard-accuracy-{kind.replace('_', '-')}", title, entries, kind, bound, settings)


def _against_paper(
    name: str, title: str, entries: Sequence[Entry], kind: str, bound: Bound, settings: set[Setting]
) -> Sheet:
    run = {entry.setting for entry in entries if entry.first.kind == kind} & settings
    printed = published.settings(kind, *CERTIFIED) if bound == "cohen" else set()
    lines = [
        _line(kind, setting, entry, bound)
        for setting in published.in_order(settings if printed else run)
        for entry in entries_of(entries, kind, setting)
    ]
    beside = numbers(paper_main="paper, main table", paper_appendix="paper, appendix") if printed else []
    columns = (
        *(*COLUMNS, *beside, *numbers(ours="ours" if printed else "standard accuracy")),
        *(numbers(difference="ours − paper") if printed else []),
        *(*HOW, *numbers(vote="vote on the whole test set")),
    )
    more = ["The difference is to the main table where it has the setting, else to the appendix."] if printed else []
    contradicted = any(str(value).endswith("†") for line in lines for value in line.values.values())
    more += [CONTRADICTION] if printed and contradicted else []
    more += [FRACTIONS] if kind == "imagenet" else []
    lead = how_much(len(run), len(settings), "settings") if printed else ""
    return annotated(Sheet(name + suffix_of(bound), title, columns, tuple(lines), lead=lead), bound, *more)


def _line(kind: str, setting: Setting, entry: Entry, bound: Bound) -> Line:
    main, extra = (published.value(kind, setting, table) for table in ("main", "appendix"))
    ours, paper = entry.certified(bound, 0.0), main or extra
    values = {
        **texts(setting),
        "paper_main": main,
        "paper_appendix": extra,
        "ours": percent(ours),
        "difference": difference(ours, paper.mean if paper else None),
        **how(entry),
        "vote": percent(entry.votes),
    }
    return Line(values, entry)


def at_a_glance(entries: Sequence[Entry], recipe: str) -> Sheet:
    """Every cell: ours with one recipe / the paper's."""
    mine = [entry for entry in entries if (entry.first.kind, entry.first.recipe_name) == (KIND, recipe)]
    settings = published.settings(KIND, "main")
    methods = sorted({method for *_, method in settings}, key=method_rank)
    inputs = {entry.setting[:2]: entry.first.inputs for entry in mine}
    lines = []
    for k, sigma in sorted({(k, sigma) for k, sigma, _ in settings}):
        values: dict[str, Value] = {"k": k, "sigma": f"{sigma:g}", "inputs": inputs.get((k, sigma))}
        for method in methods:
            [entry] = entries_of(mine, KIND, (k, sigma, method))
            ours, paper = percent(entry.certified("cohen", 0.0)), published.text(KIND, (k, sigma, method))
            values[method] = f"{ours or UNDECIDED} / {paper}"
        lines.append(Line(values))
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
