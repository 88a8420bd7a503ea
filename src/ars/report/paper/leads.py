"""How far methods are apart that answered for the same images, and how much of that chance could do."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ars.certification.bounds import Bound
from ars.report.grouping import Group, comparable, radius_lead, standard_lead
from ars.report.measures import Lead, rounded
from ars.report.paper.entries import Entry, Lineup, make_lineups
from ars.report.paper.notes import notes, suffix_of, title_of
from ars.report.paper.sheet import HOW, WHERE, Line, Sheet, Value, ahead, how, numbers, where, words

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


@dataclass(frozen=True)
class Pair:
    """Two methods of a lineup, with the seeds that both have.

    Leads are that over all seeds first, then that of each; none where the two cannot be compared.
    """

    one: Entry
    other: Entry

    def certified(
        self, bound: Bound, lead: Callable[[Group, Group, Bound], Lead | None] = standard_lead
    ) -> tuple[Lead, ...]:
        """The leads in standard accuracy, or by another measure."""
        one, other = self.one.group(), self.other.group()
        if not one or not other or not comparable(one, other) or not (one.has(bound) and other.has(bound)):
            return ()
        if len(one.runs) < len(self.one.cells) or len(other.runs) < len(self.other.cells):
            return ()
        seeds = (lead(Group((a,)), Group((b,)), bound) for a, b in zip(one.runs, other.runs, strict=True))
        return tuple(found for found in (lead(one, other, bound), *seeds) if found)

    @property
    def vote(self) -> tuple[Lead, ...]:
        """The leads in the accuracy of the plain vote."""
        cells = zip(self.one.cells, self.other.cells, strict=True)
        votes = [(mine.vote, theirs.vote) for mine, theirs in cells if mine.vote and theirs.vote]
        how = {(vote.images, vote.draws) for pair in votes for vote in pair}
        if len(votes) < len(self.one.cells) or len(how) > 1 or not self.one.same_images(self.other, certified=False):
            return ()
        means = [mine.accuracy - theirs.accuracy for mine, theirs in votes]
        errors = [math.hypot(mine.standard_error, theirs.standard_error) for mine, theirs in votes]
        every = Lead(math.fsum(means) / len(votes), math.fsum(errors) / len(votes))
        return every, *map(Lead, means, errors)


def make_pairs(lineup: Lineup) -> list[Pair]:
    """Every two methods of a lineup that have a seed in common; the first of them is the later one in the tables."""
    entries = list(enumerate(lineup.entries))
    pairs = (make_pair(one, other) for number, one in reversed(entries) for _, other in entries[:number])
    return [pair for pair in pairs if pair]


def make_pair(one: Entry, other: Entry) -> Pair | None:
    """Two methods with the seeds that both have; None where there is none."""
    seeds = {cell.seed for cell in one.cells} & {cell.seed for cell in other.cells}
    both = (Entry(tuple(cell for cell in entry.cells if cell.seed in seeds)) for entry in (one, other))
    return Pair(*both) if seeds else None


def all_leads(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Every difference between two methods of a lineup that can be compared."""
    pairs = [pair for lineup in make_lineups(entries) for pair in make_pairs(lineup)]
    lines = tuple(_line(pair, bound) for pair in pairs if pair.certified(bound) or pair.vote)
    columns = (
        *WHERE,
        *words(less="less"),
        *numbers(beside="error", standard_accuracy="standard accuracy"),
        *words(standard_accuracy_by_seed="of single seeds"),
        *numbers(beside="error", average_radius_255="average radius (/255)", vote="vote on the whole test set"),
        *words(vote_by_seed="its single seeds"),
        *HOW,
    )
    shown = [entry for line in lines for entry in line.entries]
    told = notes(shown, bound, ERRORS, COMPARABLE, accuracies=POINTS)
    return Sheet(f"leads{suffix_of(bound)}", f"How far methods are apart{title_of(bound)}", columns, lines, told)


def _line(pair: Pair, bound: Bound) -> Line:
    one, standard, radius, vote = pair.one, pair.certified(bound), pair.certified(bound, radius_lead), pair.vote
    values: tuple[Value, ...] = (
        *where(one),
        pair.other.label,
        ahead(standard[0]) if standard else None,
        _by_seed(standard),
        ahead(radius[0], scale=255, decimals=2) if radius else None,
        ahead(vote[0]) if vote else None,
        _by_seed(vote),
        *how(one if standard else None),
    )
    return Line(values, one, pair.other)


def _by_seed(leads: Sequence[Lead]) -> str | None:
    return ", ".join(rounded(100 * lead.mean) for lead in leads[1:]) or None
