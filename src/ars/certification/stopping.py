"""When to stop drawing: the fixed, radius and curve rules; loads no torch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ars.certification.bounds import Bound, check_alpha, most_misses
from ars.certification.certificate import Ending, stopped_by_data
from ars.certification.martingale import Floats, reaches
from ars.certification.planning import plan_draws
from ars.certification.settings import BLOCK, Schedule

Votes = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Wealth of the mirrored bet, against p >= p0, at which an image is given up; giving up is always sound.
HOPELESS = 100.0
# Looks are a block apart at first, later this share of the draws so far: few looks, and few unnecessary draws.
SPACING = 0.05


@dataclass(frozen=True)
class State:
    """The state of the images of a batch: votes of the selection draws [b, classes], all else [b].

    ended holds an Ending for each image, or an empty text while it needs more draws.
    """

    selected: Votes
    planned: Votes
    certified: Votes
    ended: NDArray[np.str_]

    @property
    def going(self) -> Flags:
        """Which images need more draws."""
        return np.asarray(self.ended == "")

    @property
    def candidate(self) -> NDArray[np.intp]:
        """The class chosen by each image's selection draws."""
        return np.asarray(self.selected.argmax(axis=1))


@dataclass(frozen=True)
class Outcome:
    """How the draws of one image ended.

    planned is the number of draws set before the first draw. certified is the number of certified radii of the grid.
    p_lower is a lower bound on the class's probability, valid with probability at least 1 - alpha (curve only, else 0).
    """

    schedule: Schedule
    planned: int
    ended: Ending
    counts: tuple[int, ...]
    certified: int = 0
    p_lower: float = 0.0

    @property
    def stopped_by_data(self) -> bool:
        """Whether the votes must never be bounded again."""
        return stopped_by_data(self.schedule.mode, self.ended)

    @property
    def radius(self) -> float:
        """The largest certified radius of the grid, or 0."""
        return self.schedule.radii[self.certified - 1] if self.certified else 0.0


class Rule(ABC):
    """The draws of an image end at ``planned``, or earlier if ``_decide`` ends them."""

    def __init__(self, schedule: Schedule, *, alpha: float, block: int = BLOCK) -> None:
        check_alpha(alpha)
        self.schedule, self.alpha, self.block = schedule, alpha, block

    def check(self) -> None:  # noqa: B027 - most rules refuse nothing
        """Refuse, before anything is drawn, a request that could never be certified."""

    def start(self, selected: Votes) -> State:
        """The state before the first draw; the plan depends on the selection draws alone."""
        planned = np.array([self._plan(votes) for votes in selected], dtype=np.int64)
        certified, ended = np.zeros(len(selected), dtype=np.int64), np.full(len(selected), "")
        return State(np.asarray(selected, dtype=np.int64), planned, certified, ended)

    def next_look(self, drawn: Votes, state: State) -> Votes:
        """The number of draws of each image at the next look: whole blocks, or all that are planned."""
        step = self.block * np.maximum(1, (SPACING * drawn).astype(np.int64) // self.block)
        return np.asarray(np.minimum(drawn + step, state.planned))

    def look(self, state: State, counts: Votes) -> State:
        """Decide on all votes so far; images that have ended do not change."""
        n = counts.sum(axis=1)
        if (n > state.planned).any():
            raise ValueError(f"drew {n.max()} times where at most {state.planned[n.argmax()]} draws were planned")
        certified, hopeless = self._decide(state, counts, n)
        ended = np.where(n == state.planned, "planned", np.where(hopeless, "given up", ""))
        if self.schedule.radii:
            ended = np.where(certified == len(self.schedule.radii), "certified", ended)
        return replace(state, certified=certified, ended=np.where(state.going, ended, state.ended))

    def outcomes(self, state: State, counts: Votes) -> list[Outcome]:
        """The outcomes to record, once all images have ended."""
        return [
            Outcome(
                schedule=self.schedule,
                planned=int(planned),
                ended=cast(Ending, str(ended)),
                counts=tuple(int(count) for count in votes),
                certified=int(certified),
                p_lower=self._p_lower(int(certified)),
            )
            for planned, certified, ended, votes in zip(
                state.planned, state.certified, state.ended, counts, strict=True
            )
        ]

    def _plan(self, selected: Votes) -> int:
        return self.schedule.n_max

    def _p_lower(self, certified: int) -> float:
        return 0.0

    @abstractmethod
    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        """How many radii of the grid are certified, and whether more draws are hopeless; ended images do not change."""


class FixedRule(Rule):
    """Always n_max draws."""

    def next_look(self, drawn: Votes, state: State) -> Votes:
        """One look, at the end."""
        return state.planned

    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        return state.certified, np.zeros(len(n), dtype=bool)


class RadiusRule(Rule):
    """N draws, planned from the selection draws; images whose class is not the most probable one are given up.

    Any bound at level alpha on the votes of the planned N holds with probability 1 - alpha: N does not depend on them,
    and giving up only removes certificates. An image is hopeless if p <= 1/2 (Cohen et al.'s bound) or if its class
    loses to another class (class bounds).
    """

    def __init__(self, schedule: Schedule, *, alpha: float, bound: Bound) -> None:
        super().__init__(schedule, alpha=alpha)
        self.bound: Bound = bound

    def _plan(self, selected: Votes) -> int:
        n_max, tolerance = self.schedule.n_max, self.schedule.tolerance
        assert tolerance is not None
        return plan_draws(selected.tolist(), alpha=self.alpha, bound=self.bound, n_max=n_max, tolerance=tolerance)

    def _decide(self, state: State, counts: Votes, n: Votes) -> tuple[Votes, Flags]:
        at = np.arange(len(counts)), state.candidate
        against, before = n - counts[at], state.selected.sum(axis=1) - state.selected[at]
        if self.bound == "classes":
            others = counts.copy()
            others[at] = -1
            rival = others.argmax(axis=1)
            against, before = counts[at[0], rival], state.selected[at[0], rival]
        prior = np.stack([before, state.selected[at]]) + 0.5
        half = np.full(len(n), 0.5)
        hopeless = reaches(HOPELESS, against, counts[at] + against, prior=(prior[0], prior[1]), p0=half)
        return state.certified, hopeless


# An image is given up if its estimated chance to pass the last look is below this.
SLIM = 0.01


class CurveRule(Rule):
    """Decides a grid of radii in increasing order, each only after all smaller ones.

    With probability at least 1 - alpha, no radius is certified whose level the class's probability does not exceed. The
    first such radius is certified by wealth 2/alpha (probability at most alpha/2, Ville) or by Clopper and Pearson's
    test at alpha/2 at the last look, and larger radii only after it. Giving up only removes certificates. Radii without
    a level, at the end of the grid, cannot be certified by any number of votes.
    """

    def __init__(self, schedule: Schedule, levels: Sequence[float], *, alpha: float, block: int = BLOCK) -> None:
        super().__init__(schedule, alpha=alpha, block=block)
        if len(levels) > len(schedule.radii) or any(not 0.5 <= p < 1 for p in levels) or sorted(levels) != [*levels]:
            raise ValueError(f"need a level from 1/2 up for each radius, in increasing order, got {tuple(levels)}")
        self.p = np.array(levels, dtype=np.float64)
        self.most_misses = np.array([most_misses(schedule.n_max, p, alpha / 2) for p in levels], dtype=np.int64)

    def check(self) -> None:
        """Refuse a radius that no votes could certify, and a smallest radius that n_max votes could not certify."""
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
        """Whether the mirrored bet wins, too many votes are already lost, or passing the last look is too unlikely."""
        beaten = reaches(HOPELESS, n - wins, n, prior=(prior[1], prior[0]), p0=1 - self.p[level])
        left, allowed = self.schedule.n_max - n, self.most_misses[level] - (n - wins)
        slim = _forecast(wins, n, prior, left, allowed) < ndtri(SLIM)
        return np.asarray((allowed < 0) | beaten | slim)


def _forecast(wins: Votes, n: Votes, prior: Floats, left: Votes, allowed: Votes) -> NDArray[np.float64]:
    """By how many standard deviations the allowed misses in the remaining draws exceed their predicted mean."""
    hits, misses = prior[0] + wins, prior[1] + n - wins
    total = hits + misses
    mean = left * misses / total
    variance = left * hits * misses * (total + left) / (total**2 * (total + 1))
    return np.asarray((allowed + 0.5 - mean) / np.sqrt(np.maximum(variance, 1e-300)))
