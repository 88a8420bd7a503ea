"""How far methods are apart that answered for the same images, and how much of that chance could do."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ars.certification.bounds import Bound
from ars.certification.run_folder import MAIN
from ars.report.archive.entries import Entry, View, make_views
from ars.report.archive.notes import notes, suffix_of, title_of
from ars.report.archive.settings import images_text
from ars.report.archive.sheet import Ahead, Column, Line, Sheet, Value
from ars.report.measures import Lead, Outcomes, paired_lead, rounded

POINTS = "Points of accuracy: the first method less the second, mean over the seeds that both have."
ERRORS = (
    "± is the standard error that the choice of test images leaves. Certified images are counted image by image. A "
    "vote keeps no single answers: its ± is that of two different sets of images, too large where both methods are "
    "right about the same ones. How far trainings differ is in no ±; the single seeds show it."
)
COMPARABLE = (
    "Methods that were certified on other images, at another α or with other draws are not compared, nor are votes on "
    "other test sets."
)


@dataclass(frozen=True)
class Pair:
    """Two methods of a view, with the seeds that both have.

    Leads are that over all seeds first, then that of each; none where the two cannot be compared.
    """

    one: Entry
    other: Entry

    def standard(self, bound: Bound) -> tuple[Lead, ...]:
        """The leads in standard accuracy."""
        return self._certified(bound, lambda answers: answers.correct.astype(np.float64))

    def average_radius(self, bound: Bound) -> tuple[Lead, ...]:
        """The leads in average certified radius, in pixel units."""
        return self._certified(bound, lambda answers: np.where(answers.correct, answers.radius, 0.0))

    def _certified(self, bound: Bound, measure: Callable[[Outcomes], NDArray[np.float64]]) -> tuple[Lead, ...]:
        both = (self.one, self.other)
        if not all(MAIN in cell.runs for entry in both for cell in entry.cells):
            return ()
        if not self.one.same_images(self.other) or len({(entry.alpha, entry.draws) for entry in both}) > 1:
            return ()
        outcomes = [entry.outcomes(bound) for entry in both]
        if not all(outcomes) or any(answers.grid for seeds in outcomes for answers in seeds):
            return ()
        mine, theirs = (np.stack([measure(answers) for answers in seeds]) for seeds in outcomes)
        return paired_lead(mine, theirs), *(
            paired_lead(*seed) for seed in zip(mine[:, None], theirs[:, None], strict=True)
        )

    @property
    def vote(self) -> tuple[Lead, ...]:
        """The leads in the accuracy of the plain vote."""
        cells = zip(self.one.cells, self.other.cells, strict=True)
        votes = [(mine.vote, theirs.vote) for mine, theirs in cells if mine.vote and theirs.vote]
        sizes = {vote.images for pair in votes for vote in pair}
        if len(votes) < len(self.one.cells) or len(sizes) > 1 or not self.one.same_images(self.other, certified=False):
            return ()
        means = [mine.accuracy - theirs.accuracy for mine, theirs in votes]
        errors = [math.hypot(mine.standard_error, theirs.standard_error) for mine, theirs in votes]
        every = Lead(math.fsum(means) / len(votes), math.fsum(errors) / len(votes))
        return every, *map(Lead, means, errors)


def make_pairs(view: View) -> list[Pair]:
    """Every two methods of a view that have a seed in common; the first of them is the later one in the tables."""
    pairs = []
    for number in reversed(range(len(view.entries))):
        for other in view.entries[:number]:
            one = view.entries[number]
            seeds = {cell.seed for cell in one.cells} & {cell.seed for cell in other.cells}
            both = (Entry(tuple(cell for cell in entry.cells if cell.seed in seeds)) for entry in (one, other))
            pairs += [Pair(*both)] if seeds else []
    return pairs


def all_leads(entries: Sequence[Entry], bound: Bound) -> Sheet:
    """Every difference between two methods of a view that can be compared."""
    pairs = [pair for view in make_views(entries) for pair in make_pairs(view)]
    lines = tuple(_line(pair, bound) for pair in pairs if pair.standard(bound) or pair.vote)
    columns = (
        Column("benchmark", "benchmark", number=False),
        Column("k", "k", number=False),
        Column("σ", "sigma", number=False),
        Column("method", "method", number=False),
        Column("less", "less", number=False),
        Column("standard accuracy", "standard_accuracy", beside="error"),
        Column("of single seeds", "standard_accuracy_by_seed", number=False),
        Column("average radius (/255)", "average_radius_255", beside="error"),
        Column("vote on the whole test set", "vote", beside="error"),
        Column("its single seeds", "vote_by_seed", number=False),
        Column("images", "images", number=False),
        Column("draws", "draws", number=False),
        Column("α", "alpha", number=False),
    )
    shown = [entry for line in lines for entry in line.entries]
    told = notes(shown, bound, ERRORS, COMPARABLE, accuracies=POINTS)
    return Sheet(f"leads{suffix_of(bound)}", f"How far methods are apart{title_of(bound)}", columns, lines, told)


def _line(pair: Pair, bound: Bound) -> Line:
    one, standard, radius, vote = pair.one, pair.standard(bound), pair.average_radius(bound), pair.vote
    values: tuple[Value, ...] = (
        one.first.benchmark,
        one.first.k,
        f"{one.first.sigma:g}",
        one.label,
        pair.other.label,
        Ahead(standard[0]) if standard else None,
        _by_seed(standard),
        Ahead(radius[0], scale=255, decimals=2) if radius else None,
        Ahead(vote[0]) if vote else None,
        _by_seed(vote),
        *((images_text(one), one.draws, one.alpha) if standard else (None, None, None)),
    )
    return Line(values, one, pair.other)


def _by_seed(leads: Sequence[Lead]) -> str | None:
    return ", ".join(rounded(100 * lead.mean) for lead in leads[1:]) or None
