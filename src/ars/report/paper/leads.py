"""How far methods are apart that answered for the same images, and how much of that chance could do."""

import math
from collections.abc import Callable, Sequence

from ars.certification.bounds import Bound
from ars.report.grouping import Group, comparable, radius_lead, standard_lead
from ars.report.measures import Lead, rounded
from ars.report.paper.entries import Entry, Lineup, make_lineups
from ars.report.paper.notes import notes, suffix_of, title_of
from ars.report.paper.sheet import HOW, WHERE, Line, Sheet, ahead, how, numbers, where, words

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
    lines = tuple(_line(*pair, bound) for pair in every if certified_leads(*pair, bound) or vote_leads(*pair))
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


def _line(one: Entry, other: Entry, bound: Bound) -> Line:
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
