"""Accuracies beside the published ones, and how far methods are apart that answered for the same images."""

import math
from collections.abc import Callable, Sequence

from ars.certification.bounds import Bound
from ars.report.grouping import Group, comparable, radius_lead, standard_lead
from ars.report.measures import Lead, method_name, method_rank, rounded
from ars.report.paper import published
from ars.report.paper.entries import NOT_RUN, Entry, Lineup, make_lineups
from ars.report.paper.notes import CONTRADICTION, FRACTIONS, annotated, how_much, notes, suffix_of, title_of, whose
from ars.report.paper.published import CERTIFIED, Setting
from ars.report.paper.sheet import (
    COLUMNS,
    HOW,
    WHERE,
    Line,
    Sheet,
    Value,
    ahead,
    difference,
    how,
    numbers,
    percent,
    where,
    words,
)
from ars.report.rendering import UNDECIDED

KIND = "cifar_backgrounds"
POINTS = "Points of accuracy: the first method less the second, mean over the seeds that both have."
ERRORS = (
    "± is the standard error that the choice of test images leaves. Certified images are counted image by image. A "
    "vote keeps no single answers: its ± is that of two different sets of images, too large where both methods are "
    "right about the same ones. How far trainings differ is in no ±; the single seeds show it."
)
COMPARABLE = (
    "Methods that were certified on other images, at another α or with other draws are not compared, nor are votes on "
    "other test sets or of other draws."
)


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


def pair_up(one: Entry, other: Entry) -> tuple[Entry, Entry] | None:
    """Two methods with the seeds that both have; None where there is none."""
    seeds = {cell.seed for cell in one.cells} & {cell.seed for cell in other.cells}
    mine, theirs = (Entry(tuple(cell for cell in entry.cells if cell.seed in seeds)) for entry in (one, other))
    return (mine, theirs) if seeds else None


def certified_leads(
    one: Entry, other: Entry, bound: Bound, lead: Callable[[Group, Group, Bound], Lead | None] = standard_lead
) -> tuple[Lead, ...]:
    """The lead over all seeds in standard accuracy, or by another measure, then that of each seed.

    None where any seed is not certified, or the two cannot be compared.
    """
    mine, theirs = one.main, other.main
    if not mine or not theirs or not comparable(mine, theirs) or not (mine.has(bound) and theirs.has(bound)):
        return ()
    if len(mine.runs) < len(one.cells) or len(theirs.runs) < len(other.cells):
        return ()
    seeds = (lead(Group((a,)), Group((b,)), bound) for a, b in zip(mine.runs, theirs.runs, strict=True))
    return tuple(found for found in (lead(mine, theirs, bound), *seeds) if found)


def vote_leads(one: Entry, other: Entry) -> tuple[Lead, ...]:
    """The lead over all seeds in the accuracy of the plain vote, then that of each seed."""
    cells = zip(one.cells, other.cells, strict=True)
    votes = [(mine.vote, theirs.vote) for mine, theirs in cells if mine.vote and theirs.vote]
    how = {(vote.images, vote.draws) for pair in votes for vote in pair}
    if len(votes) < len(one.cells) or len(how) > 1 or not one.same_images(other, certified=False):
        return ()
    means = [mine.accuracy - theirs.accuracy for mine, theirs in votes]
    errors = [math.hypot(mine.standard_error, theirs.standard_error) for mine, theirs in votes]
    every = Lead(math.fsum(means) / len(votes), math.fsum(errors) / len(votes))
    return every, *map(Lead, means, errors)


def all_leads(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Every difference between two methods of a lineup that can be compared."""
    every = [pair for lineup in make_lineups(entries) for pair in _pairs(lineup)]
    lines = tuple(_lead_line(*pair, bound) for pair in every if certified_leads(*pair, bound) or vote_leads(*pair))
    columns = (
        *WHERE,
        *words(less="less"),
        *numbers(beside="error", standard_accuracy="standard accuracy"),
        *words(standard_accuracy_by_seed="of single seeds"),
        *numbers(beside="error", average_radius_255="average radius (/255)", vote="vote on the whole test set"),
        *words(vote_by_seed="its single seeds"),
        *HOW,
    )
    shown = [entry for line in lines for entry in (line.entry, line.over)]
    told = notes(shown, bound, ERRORS, COMPARABLE, accuracies=POINTS)
    return Sheet(f"leads{suffix_of(bound)}", f"How far methods are apart{title_of(bound)}", columns, lines, told)


def _pairs(lineup: Lineup) -> list[tuple[Entry, Entry]]:
    """Every two methods of a lineup that have a seed in common; the first of them is the later one in the tables."""
    entries = list(enumerate(lineup.entries))
    pairs = (pair_up(one, other) for number, one in reversed(entries) for _, other in entries[:number])
    return [pair for pair in pairs if pair]


def _lead_line(one: Entry, other: Entry, bound: Bound) -> Line:
    standard, radius = certified_leads(one, other, bound), certified_leads(one, other, bound, radius_lead)
    vote = vote_leads(one, other)
    values = {
        **where(one),
        "less": other.label,
        "standard_accuracy": ahead(standard[0]) if standard else None,
        "standard_accuracy_by_seed": _by_seed(standard),
        "average_radius_255": ahead(radius[0], scale=255, decimals=2) if radius else None,
        "vote": ahead(vote[0]) if vote else None,
        "vote_by_seed": _by_seed(vote),
        **(how(one) if standard else {}),
    }
    return Line(values, one, other)


def _by_seed(leads: Sequence[Lead]) -> str | None:
    return ", ".join(rounded(100 * lead.mean) for lead in leads[1:]) or None
