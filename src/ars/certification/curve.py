"""The rule that decides a grid of radii: what a table of certified accuracies needs, and no more draws than that."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri

from ars.certification.bounds import CHECKED, LEAST_LEVEL
from ars.certification.martingale import Floats, reaches
from ars.certification.schedule import Schedule
from ars.certification.stopping import HOPELESS, Flags, Rule, State, Votes

# Chance to pass the last look, as far as the votes tell, below which an image is given up.
SLIM = 0.01


class CurveRule(Rule):
    """A grid of radii is decided in increasing order, each only after all smaller ones.

    With probability at least 1 - alpha no radius is certified whose level the class does not exceed: the first such
    radius is certified by wealth 2/alpha (at most alpha/2, Ville) or by Clopper and Pearson's test at alpha/2 at the
    last look, and the larger ones only after it. Giving up only takes certificates away. Radii without a level, at the
    end of the grid, are out of reach of any number of votes.
    """

    def __init__(self, schedule: Schedule, levels: Sequence[float], *, alpha: float, block: int = 100) -> None:
        super().__init__(schedule, alpha=alpha, block=block)
        if len(levels) > len(schedule.radii) or any(not 0.5 <= p < 1 for p in levels) or sorted(levels) != [*levels]:
            raise ValueError(f"need a level from 1/2 up for each radius, in increasing order, got {tuple(levels)}")
        self.p = np.array(levels, dtype=np.float64)
        self.most_misses = np.array([most_misses(schedule.n_max, p, alpha / 2) for p in levels], dtype=np.int64)

    def check(self) -> None:
        """Refuse a grid with radii that no votes at all, or its smallest one that not n_max votes could certify."""
        radii, n = self.schedule.radii, self.schedule.n_max
        if len(self.p) < len(radii):
            raise ValueError(
                f"radius {radii[len(self.p)]:g} cannot be certified: its class would need probability 1; leave it out"
            )
        if self.most_misses[0] < 0:
            raise ValueError(
                f"{n} draws cannot certify radius {radii[0]:g} at alpha={self.alpha} even if all votes agree; "
                f"use at least {int(np.log(self.alpha / 2) / np.log(self.p[0])) + 1} draws"
            )

    def _p_lower(self, certified: int) -> float:
        return float(self.p[certified - 1]) if certified else 0.0

    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        rows = np.arange(len(counts))
        wins, seen = counts[rows, state.candidate], state.selected[rows, state.candidate]
        prior = np.stack([seen + 0.5, state.selected.sum(axis=1) - seen + 0.5])
        certified, hopeless = state.certified.copy(), np.zeros(len(n), dtype=bool)
        hopeless[:] = len(self.p) == 0
        at = np.flatnonzero(state.going & ~hopeless)
        while len(at):
            passed = self._passes(wins[at], n[at], prior[:, at], certified[at])
            stuck = at[~passed]
            hopeless[stuck] = self._is_hopeless(wins[stuck], n[stuck], prior[:, stuck], certified[stuck])
            at = at[passed]
            certified[at] += 1
            beyond = certified[at] == len(self.p)
            hopeless[at[beyond]] = True
            at = at[~beyond]
        return certified, hopeless

    def _passes(self, wins: Votes, n: Votes, prior: Floats, level: Votes) -> Flags:
        passed = reaches(2 / self.alpha, wins, n, prior=(prior[0], prior[1]), p0=self.p[level])
        at_last: Flags = (n == self.schedule.n_max) & (n - wins <= self.most_misses[level])
        return passed | at_last

    def _is_hopeless(self, wins: Votes, n: Votes, prior: Floats, level: Votes) -> Flags:
        """Where the mirrored bet wins, too many votes are lost already, or the last look is out of reach."""
        beaten = reaches(HOPELESS, n - wins, n, prior=(prior[1], prior[0]), p0=1 - self.p[level])
        left, allowed = self.schedule.n_max - n, self.most_misses[level] - (n - wins)
        slim = _forecast(wins, n, prior, left, allowed) < ndtri(SLIM)
        return np.asarray((allowed < 0) | beaten | slim)


def most_misses(n: int, p: float, alpha: float) -> int:
    """The most misses of n draws at which P(Bin(n, p) >= hits) <= alpha, or -1.

    >>> most_misses(100, 0.9, 0.05), most_misses(28, 0.9, 0.05)
    (4, -1)
    """
    if alpha < LEAST_LEVEL:
        return -1
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        passes = betainc(n - middle, middle + 1, p) <= alpha * CHECKED
        low, high = (middle, high) if passes else (low, middle)
    return low


def _forecast(wins: Votes, n: Votes, prior: Floats, left: Votes, allowed: Votes) -> NDArray[np.float64]:
    """How many standard deviations the misses allowed in the draws left lie above their mean, as the votes predict."""
    hits, misses = prior[0] + wins, prior[1] + n - wins
    total = hits + misses
    mean = left * misses / total
    variance = left * hits * misses * (total + left) / (total**2 * (total + 1))
    return np.asarray((allowed + 0.5 - mean) / np.sqrt(np.maximum(variance, 1e-300)))
